/// The marks of texts in some bytes: every text has one of its own (`Simulation.text`).
struct Marks {
    private(set) var numbers: Set<Int> = []

    private static let (first, last) = (Array("‹".utf8), Array("›".utf8))

    init(in bytes: some Sequence<UInt8>) {
        // By bytes, as a text may stand between some that are none.
        let bytes = Array(bytes)
        var place = 0
        while let start = bytes[place...].firstIndex(of: Self.first[0]) {
            place = start + 1
            guard bytes[start...].starts(with: Self.first) else { continue }
            place = start + Self.first.count
            let digits = bytes[place...].prefix { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
            guard bytes[digits.endIndex...].starts(with: Self.last), let number = Int(String(decoding: digits, as: UTF8.self)) else { continue }
            numbers.insert(number)
        }
    }

    func isDisjoint(with other: Marks) -> Bool { numbers.isDisjoint(with: other.numbers) }
}
