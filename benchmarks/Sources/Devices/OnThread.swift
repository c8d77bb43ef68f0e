import Foundation

/// Runs what sleeps and must not be late on a thread of its own.
func onThread<R: Sendable>(_ body: @escaping @Sendable () -> R) async -> R {
    await withCheckedContinuation { continuation in
        let thread = Thread { continuation.resume(returning: body()) }
        thread.qualityOfService = .userInteractive
        thread.start()
    }
}
