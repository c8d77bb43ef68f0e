package import Replication

extension SocketEnd {
    /// The close code behind a BYE: it repeats for those who only see the socket what the BYE says.
    package init(_ bye: Bye) {
        let code: UInt16 =
            switch bye.code {
            case .normal: 1000
            case .goingAway: 1001
            case .internalError, .storeFull: 1011
            case .protocolError, .unsupportedVersion, .forked: 4400
            case .unauthenticated, .tokenExpired, .forbidden: 4401
            case .timeout: 4408
            case .overloaded: 4429
            }
        self.init(code, bye.reason)
    }
}
