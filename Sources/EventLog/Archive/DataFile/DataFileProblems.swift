/// Bounded, as a damaged file may have a problem in each of its pages.
struct DataFileProblems {
    static let countMax = 100
    private(set) var list: [DataFileProblem] = []
    private(set) var omitted = 0

    var isFull: Bool { list.count >= Self.countMax }
    var total: Int { list.count + omitted }

    mutating func add(_ kind: DataFileProblem.Kind, page: UInt64, _ detail: String) {
        if isFull {
            omitted += 1
        } else {
            list.append(DataFileProblem(kind: kind, page: page, detail: detail))
        }
    }
}
