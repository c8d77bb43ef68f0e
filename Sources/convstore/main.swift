print("convstore")
