/// Prometheus' text format 0.0.4, as it is written.
struct PrometheusText {
    private(set) var text = ""

    mutating func gauge(_ name: String, _ help: String, _ value: Double) {
        head(name, help, "gauge")
        sample(name, [], value)
    }

    mutating func counter(_ name: String, _ help: String, _ value: UInt64) {
        head(name, help, "counter")
        text += "\(name) \(value)\n"
    }

    mutating func head(_ name: String, _ help: String?, _ type: String) {
        if let help { text += "# HELP \(name) \(help)\n" }
        text += "# TYPE \(name) \(type)\n"
    }

    mutating func sample(_ name: String, _ labels: [(String, String)], _ value: Double) {
        text += name
        if !labels.isEmpty { text += "{" + labels.map { "\($0)=\"\(Self.escaped($1))\"" }.joined(separator: ",") + "}" }
        text += " \(Self.number(value))\n"
    }

    static func number(_ value: Double) -> String {
        if value.isInfinite { return value > 0 ? "+Inf" : "-Inf" }
        return Int64(exactly: value).map(String.init) ?? "\(value)"
    }

    private static func escaped(_ value: String) -> String {
        var result = ""
        for character in value.unicodeScalars {
            switch character {
            case "\\": result += "\\\\"
            case "\"": result += "\\\""
            case "\n": result += "\\n"
            default: result.unicodeScalars.append(character)
            }
        }
        return result
    }
}
