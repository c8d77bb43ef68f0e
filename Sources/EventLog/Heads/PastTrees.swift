/// Trees over the first events of a log that were passed once: whatever older head is asked for goes on from one of them.
struct PastTrees {
    /// Ascending, `spacing` events apart.
    private var marks: [CompactRange] = []
    private var spacing: UInt64 = 1024

    /// Trees that are kept, of some hundred bytes each.
    private static let marksMax = 64

    var count: Int { marks.count }

    /// The nearest of at most so many events; that of none, if there is none.
    func nearest(_ size: UInt64) -> CompactRange {
        var low = 0
        var high = marks.count
        while low < high {
            let middle = (low + high) / 2
            if marks[middle].size <= size { low = middle + 1 } else { high = middle }
        }
        return low > 0 ? marks[low - 1] : CompactRange()
    }

    /// Told of each tree that is passed. If there are many, every other one goes.
    mutating func note(_ tree: CompactRange) {
        guard tree.size.isMultiple(of: spacing) else { return }
        let index = marks.firstIndex { $0.size >= tree.size } ?? marks.endIndex
        if index < marks.endIndex, marks[index].size == tree.size { return }
        marks.insert(tree, at: index)
        while marks.count > Self.marksMax {
            spacing *= 2
            marks.removeAll { [spacing] in !$0.size.isMultiple(of: spacing) }
        }
    }
}
