import Interchange
import Testing

@Suite("Canonical JSON") struct CanonicalJSONTests {
    @Test(
        "values that Python takes for equal have one form",
        arguments: [
            ("[ 1.0 , 1.00,1e0, 1 ]", "[1.0,1.0,1.0,1]"), (#"[{"b":1,"a":{"d":2,"c":[]}}]"#, #"[{"a":{"c":[],"d":2},"b":1}]"#),
            (#"["é\u00e9\/"]"#, #"["\u00e9\u00e9/"]"#),
            (#"[{"a":1,"a":2}]"#, #"[{"a":2}]"#), ("[-0,-0.0,1e400,-1e400,1e-400]", "[0,-0.0,Infinity,-Infinity,0.0]"), ("{}", nil),
            ("[", nil), ("", nil), ("[] []", nil),
        ] as [(String, String?)]) func forms(_ text: String, _ expected: String?)
    {
        #expect(CanonicalJSON.array(text) == expected)
        if let expected { #expect(CanonicalJSON.array(expected) == expected) }
    }

    @Test("deep nesting is refused, not a stack overflow") func deepNesting() {
        #expect(CanonicalJSON.array(String(repeating: "[", count: 900) + String(repeating: "]", count: 900)) != nil)
        #expect(CanonicalJSON.array(String(repeating: "[", count: 100_000) + String(repeating: "]", count: 100_000)) == nil)
        #expect(CanonicalJSON.array(String(repeating: "[{\"a\":", count: 1_000_000)) == nil)
    }
}
