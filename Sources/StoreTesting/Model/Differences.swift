/// Where two lists of rows differ first, field by field; `nil` if they do not.
package func difference<Row: Hashable>(_ got: [Row], _ expected: [Row]) -> String? {
    for (place, (got, expected)) in zip(got, expected).enumerated() where got != expected {
        let fields = zip(Mirror(reflecting: got).children, Mirror(reflecting: expected).children)
            .filter { "\($0.value)" != "\($1.value)" }.map { "\($0.label ?? "") is \($0.value), the model has \($1.value)" }
        return "row \(place): \(fields.joined(separator: "; "))"
    }
    return got.count == expected.count ? nil : "there are \(got.count) rows, the model has \(expected.count)"
}
