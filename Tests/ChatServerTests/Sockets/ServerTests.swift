import Testing

/// One after the other: they measure time, and each has a server and a thread or two.
@Suite("Hub server", .serialized) enum ServerTests {}
