import EventLog

/// Lets this thread, which may wait, have done what is asynchronous.
func waiting<Value: Sendable>(_ body: @escaping @Sendable () async throws -> Value) throws -> Value {
    let box = Monitor<Result<Value, any Error>?>(nil)
    Task.detached {
        let result: Result<Value, any Error>
        do { result = .success(try await body()) } catch { result = .failure(error) }
        box.withLock { $0 = result }
        box.wakeAll()
    }
    return try box.withLock(waitingWhile: { $0 == nil }) { try $0!.get() }
}
