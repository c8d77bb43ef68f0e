@testable import EventLog

/// Looks up submissions as a hub does, in pieces of about so many events.
func look(_ submissions: inout [Submission], _ index: OriginIndex, limit: Int = .max) throws -> Effort {
    var memory = TwinMemory()
    return try look(&submissions, index, &memory, limit: limit)
}

func look(_ submissions: inout [Submission], _ index: OriginIndex, _ memory: inout TwinMemory, limit: Int = .max) throws -> Effort {
    var effort = Effort()
    var lookup = SubmissionLookup(submissions)
    while try lookup.next(index, &effort) != nil { effort.events += try lookup.read(index, &memory, limit: limit).events }
    submissions = lookup.submissions
    return effort
}
