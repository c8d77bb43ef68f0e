/// Rows of cells in columns, for people. Cells are made harmless; the first row is the heading.
struct Table {
    enum Alignment { case left, right }

    private let alignments: [Alignment]
    private var rows: [[String]]

    init(_ columns: [(heading: String, alignment: Alignment)]) {
        alignments = columns.map(\.alignment)
        rows = columns.contains { !$0.heading.isEmpty } ? [columns.map(\.heading)] : []
        hasHeading = !rows.isEmpty
    }

    private let hasHeading: Bool
    var count: Int { rows.count - (hasHeading ? 1 : 0) }

    mutating func add(_ cells: String...) { add(cells) }
    mutating func add(_ cells: [String]) { rows.append(cells.map { Sanitizer.harmless($0) }) }

    /// Writes the rows gathered and forgets them, so that a long list needs no memory: each page has its own widths.
    mutating func print() throws {
        let widths = alignments.indices.map { column in rows.map { DisplayWidth.of($0[column]) }.max() ?? 0 }
        for (index, row) in rows.enumerated() {
            var line = ""
            for (column, cell) in row.enumerated() {
                let padding = String(repeating: " ", count: max(0, widths[column] - DisplayWidth.of(cell)))
                let isLast = column == row.count - 1
                if column > 0 { line += "  " }
                line += alignments[column] == .right ? padding + cell : isLast ? cell : cell + padding
            }
            try StandardOutput.shared.writeLine(hasHeading && index == 0 ? Style.bold(line) : line)
        }
        rows.removeAll { _ in true }
    }
}
