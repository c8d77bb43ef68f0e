import EventLog
import Foundation
@testable import Replication
import Testing

/// What is on the wire stays readable. (`make docs-vectors` writes the file.)
@Suite("Frame vectors", .serialized) struct FrameVectorTests {
    /// A frame whose one field is `number`, of these bytes.
    static func frame(_ number: UInt8, _ bytes: [UInt8]) -> [UInt8] {
        var out = ByteBuffer()
        out.put(varint: UInt64(number) << 3 | 2)
        out.put(varint: UInt64(bytes.count))
        out.put(bytes)
        return out.array()
    }

    /// With a field of each wire type, of a newer version, behind the others.
    private static func extended(_ frame: Frame) -> [UInt8] {
        let bytes = frame.encoded()
        let number = bytes[0] >> 3 | (bytes[0] & 0x80 == 0 ? 0 : bytes[1] << 4)
        // Skips the tag, then the length.
        var start = bytes[0] & 0x80 == 0 ? 1 : 2
        while bytes[start] & 0x80 != 0 { start += 1 }
        let more = unhex("a80601" + "b106" + "0102030405060708" + "b206" + "03616263" + "bd06" + "01020304")
        return Self.frame(number, Array(bytes[(start + 1)...]) + more)
    }

    static func make() throws -> FrameVectors.File {
        let frames = FrameSamples.all.map { name, frame in
            FrameVectors.Vector(name: name, kind: frame.kind, fields: frame.fields, bytes: hex(frame.encoded()))
        }
        var seen: Set<String> = []
        let newer = FrameSamples.all.filter { seen.insert($0.frame.name).inserted }.map { name, frame in
            FrameVectors.Newer(name: "\(frame.name) with further fields", of: name, bytes: hex(extended(frame)))
        }
        let id = "0a10" + String(repeating: "ab", count: 16)
        let log = id
        func wrong(_ name: String, _ problem: CodecError.Problem, _ bytes: [UInt8]) -> FrameVectors.Wrong {
            FrameVectors.Wrong(name: name, problem: "\(problem)", bytes: hex(bytes))
        }
        func edited(_ change: (inout Hello) -> Void) -> [UInt8] {
            var hello = FrameSamples.hello()
            change(&hello)
            return Frame.hello(hello).encoded()
        }
        let hello = FrameSamples.named("HELLO with everything").encoded()
        let big = "ffffffffffffffff7f"
        var wrongs = [
            wrong("nothing", .truncated, []), wrong("field 0", .badField, [0x02, 0x00]), wrong("a frame that nobody knows", .badField, [0xAA, 0x01, 0x00]),
            wrong("a frame that is a number", .badField, [0x50, 0x01]), wrong("two frames", .badField, [0x52, 0x00, 0x52, 0x00]),
            wrong("a frame and a byte", .badField, [0x52, 0x00, 0x00]), wrong("a frame longer than the message", .truncated, [0x52, 0x03, 0x08, 0x01]),
            wrong("a length of 2^63", .truncated, unhex("5280808080808080808001")), wrong("a length of 2^64", .overlongVarint, unhex("5280808080808080808002")),
            wrong("a tag that is not minimal", .overlongVarint, [0xD2, 0x00, 0x00]), wrong("a field 0 inside", .badField, frame(10, [0x00, 0x00])),
            wrong("a group inside", .badField, frame(10, [0x0B, 0x0C])), wrong("a wire type that is none", .badField, frame(10, [0x0F])),
            wrong("a number cut off", .truncated, frame(10, [0x08, 0x80])), wrong("a fixed number cut off", .truncated, frame(12, [0x09, 1, 2, 3])),
            wrong("a text cut off", .truncated, frame(15, [0x0A, 0x05, 0x61])),
            wrong("a text that is no UTF-8", .badUTF8, frame(15, [0x0A, 0x02, 0xC0, 0x80])),
            wrong("HELLO cut off", .truncated, Array(hello.dropLast(1))), wrong("HELLO of nothing", .badValue, frame(1, [])),
            wrong("HELLO with a nonce of 15 bytes", .badValue, edited { $0.nonce.removeLast() }),
            wrong("HELLO with a token of 16,385 bytes", .badValue, edited { $0.token = String(repeating: "t", count: 16_385) }),
            wrong(
                "HELLO whose versions are upside down", .badValue, frame(1, unhex("08021001" + hex(Frame.hello(FrameSamples.hello()).encoded().dropFirst(6))))),
            wrong(
                "HELLO with a scope that nobody knows", .badValue, frame(1, Array(Frame.hello(FrameSamples.hello()).encoded().dropFirst(2)) + unhex("42020804"))
            ),
            wrong("WELCOME without a store", .badValue, frame(2, unhex("0801"))),
            wrong("PUSH with a nonce of 3 bytes", .badValue, frame(3, unhex("0a052203010203"))),
            wrong("PUSH whose event is a number", .badField, frame(3, unhex("0801"))), wrong("ACCEPTED without a log", .badValue, frame(4, unhex("0a00"))),
            wrong("ACCEPTED at a seq that cannot be", .badValue, frame(4, unhex("0a2e" + log + "1a10" + String(repeating: "cd", count: 16) + "28" + big))),
            wrong("REFUSED without a code", .badValue, frame(5, unhex("0a24" + log + "1a10" + String(repeating: "cd", count: 16)))),
            wrong("SEGMENT whose note names no log", .badValue, frame(6, unhex("1200"))),
            wrong("EVENTS with a commitment of 3 bytes", .badValue, frame(7, unhex("0a051a03010203"))),
            wrong("FETCH of two logs in one", .badValue, frame(8, unhex("0a15" + log + "120161"))),
            wrong("FETCH of a user without a name", .badValue, frame(8, unhex("0a021200"))),
            wrong("FETCH of a name of 256 bytes", .badValue, frame(8, unhex("0a8302" + "128002" + String(repeating: "61", count: 256)))),
            wrong("FETCH from a seq that cannot be", .badValue, frame(8, unhex("0a1c" + log + "18" + big))),
            wrong("FETCH of a damaged run with a check of 7 bytes", .badValue, frame(8, unhex("121b" + log + "3207" + String(repeating: "ef", count: 7)))),
            wrong("FETCH of a damaged run of no log", .badValue, frame(8, unhex("12021801"))),
            wrong("FETCH of a damaged run at a position that cannot be", .badValue, frame(8, unhex("121c" + log + "20" + big))),
            wrong("FETCH of a damaged run with a span of no log", .badValue, frame(8, unhex("1218" + log + "3a0418012001"))),
            wrong("FETCH of a damaged run with a span from 0", .badValue, frame(8, unhex("1228" + log + "3a14" + log + "2001"))),
            wrong("FETCH of a damaged run with a span of nothing", .badValue, frame(8, unhex("1228" + log + "3a14" + log + "1801"))),
            wrong("FETCH of a damaged run with a span of 32,769 events", .badValue, frame(8, unhex("122c" + log + "3a18" + log + "180120818002"))),
            wrong("FETCH of a damaged run with a span at a seq that cannot be", .badValue, frame(8, unhex("1232" + log + "3a1e" + log + "18" + big + "2001"))),
            wrong("CAUGHT_UP without a cursor", .badValue, frame(9, [])), wrong("TYPING of nobody", .badValue, frame(11, unhex(log))),
            wrong("HEADS without a root", .badValue, frame(16, unhex("0a16" + log + "1a020801"))),
            wrong("HEADS of a log of 2^62 + 1 events", .badValue, frame(16, unhex("0a40" + log + "1a2c" + "088180808080808080401220" + hex(0..<32)))),
            wrong("BASE of a conversation id of 15 bytes", .badValue, frame(17, unhex("0a0f" + String(repeating: "ab", count: 15)))),
            wrong("BASE at a seq that cannot be", .badValue, frame(17, unhex(log + "20" + big))),
            wrong("REPAIR at a position that cannot be", .badValue, frame(18, unhex("08" + big))),
            wrong("REPAIR whose block is a number", .badField, frame(18, unhex("1001"))),
        ]
        let told = unhex("0a14" + "0a10" + String(repeating: "ab", count: 16) + "18051001")
        wrongs += [
            wrong("PROGRESS beside which a log of 15 bytes is whole", .badValue, frame(19, told + unhex("2a0f" + String(repeating: "ab", count: 15)))),
            wrong("PROGRESS beside which nobody's log is whole", .badValue, frame(19, told + unhex("3200"))),
            wrong("PROGRESS beside which a number is whole", .badField, frame(19, told + unhex("2801"))),
        ]
        // Of a hub that stands at 5.
        let cursor = "0a14" + "0a10" + String(repeating: "ab", count: 16) + "1805"
        let progress = [
            ("without a cursor", "1001"), ("of nothing whole", cursor), ("whole from behind what comes next", cursor + "1007"),
            ("part from behind where it is whole", cursor + "10021803"), ("part through what is not there yet", cursor + "100218012006"),
            ("at a position that cannot be", "0a1c" + "0a10" + String(repeating: "ab", count: 16) + "18" + big + "1001"),
        ]
        for (name, bytes) in progress {
            wrongs.append(wrong("PROGRESS \(name)", .badValue, frame(19, unhex(bytes))))
            let told = unhex(bytes)
            let hello = Array(Frame.hello(FrameSamples.hello()).encoded().dropFirst(2))
            wrongs.append(wrong("HELLO with a progress \(name)", .badValue, frame(1, hello + [0x8A, 0x01, UInt8(told.count)] + told)))
        }
        return FrameVectors.File(frames: frames, newer: newer, wrong: wrongs, sessions: [try RecordedSession.run()])
    }

    @Test("a frame's bytes are those of its vector, and are read as it") func frames() throws {
        if FrameVectors.isWriting { try FrameVectors.write(Self.make()) }
        let file = try FrameVectors.read()
        #expect(file.frames.map(\.name) == FrameSamples.all.map(\.name))
        for (vector, sample) in zip(file.frames, FrameSamples.all) {
            #expect(hex(sample.frame.encoded()) == vector.bytes, "\(vector.name)")
            #expect(try Frame(decoding: unhex(vector.bytes)) == sample.frame, "\(vector.name)")
            #expect(vector.kind == sample.frame.kind && vector.fields == sample.frame.fields, "\(vector.name)")
        }
        #expect(Set(file.frames.map(\.kind)).count == 20)
    }

    @Test("fields of a newer version are skipped") func newer() throws {
        let file = try FrameVectors.read()
        #expect(file.newer.count == 20)
        for vector in file.newer {
            let base = try #require(file.frames.first { $0.name == vector.of })
            #expect(try Frame(decoding: unhex(vector.bytes)) == Frame(decoding: unhex(base.bytes)), "\(vector.name)")
        }
    }

    @Test("bytes that are no frame are refused, each with its problem") func wrong() throws {
        let file = try FrameVectors.read()
        #expect(file.wrong.count > 30)
        for vector in file.wrong {
            var problem = "none"
            do {
                _ = try Frame(decoding: unhex(vector.bytes))
            } catch {
                problem = "\(error.problem)"
            }
            #expect(problem == vector.problem, "\(vector.name)")
        }
    }

    @Test("a frame cut anywhere is refused") func cut() throws {
        for vector in try FrameVectors.read().frames {
            let bytes = unhex(vector.bytes)
            for count in bytes.indices {
                #expect(throws: FrameError.self, "\(vector.name) cut at \(count)") { try Frame(decoding: Array(bytes.prefix(count))) }
            }
        }
    }

    @Test("a message that is too large is not looked at") func tooLarge() {
        #expect(throws: FrameError.self) { try Frame(decoding: [UInt8](repeating: 0, count: WireLimits.messageBytesMax + 1)) }
        // Nor one that is made of fields and nothing else.
        let fields = [UInt8](repeating: 8, count: 2 << 20)
        #expect(throws: FrameError.self) { try Frame(decoding: Self.frame(10, fields)) }
    }

    @Test("what is said to people is cut, between characters, and what a hub may ask for is bounded") func cutTexts() throws {
        let long = String(repeating: "ş", count: 700) + "e\u{301}"
        let bye = try Frame(decoding: Frame.bye(Bye(.normal, "a" + long, retryAfterMilliseconds: .max)).encoded())
        #expect(bye == .bye(Bye(.normal, "a" + String(repeating: "ş", count: 511), retryAfterMilliseconds: 86_400_000)))
        #expect("abc".cut(toBytes: 3) == "abc" && "abc".cut(toBytes: 0).isEmpty && "🙂".cut(toBytes: 3).isEmpty)
        let refusal = Refused(
            log: .user(FrameSamples.user), replica: FrameSamples.replica, counter: 1, code: "malformed", detail: String(repeating: "🙂", count: 2000))
        guard case .refused(let read) = try Frame(decoding: Frame.refused([refusal]).encoded()) else {
            Issue.record("not REFUSED")
            return
        }
        #expect(read[0].detail.utf8.count == 4096)
    }

    @Test("a BYE of a newer version is one for an internal error") func unknownCode() throws {
        #expect(try Frame(decoding: unhex("7202087f")) == .bye(Bye(.internalError)))
    }

    @Test("the recorded session is what the two sides say") func session() throws {
        let file = try FrameVectors.read()
        #expect(file.sessions.count == 1)
        #expect(try RecordedSession.run().messages == file.sessions[0].messages)
        for message in file.sessions[0].messages { #expect(try Frame(decoding: unhex(message.bytes)).kind == message.kind) }
    }
}
