import CRocksDB

/// RocksDB's options for one table, as its wiki advises for such a load: 64 MiB write buffers, LZ4 above and zstd in the last level, an
/// LRU cache, Bloom filters, memtables made for one writer (keys that ascend are inserted in constant time), and log files that are used
/// again (a sync then changes no file size).
enum RocksTuning {
    static let cacheBytes = 256 << 20

    /// `filtersMemtable` makes a key that is new cost no look-up.
    static func options(cache: OpaquePointer?, filtersMemtable: Bool) -> OpaquePointer? {
        let blocks = rocksdb_block_based_options_create()
        rocksdb_block_based_options_set_block_cache(blocks, cache)
        rocksdb_block_based_options_set_filter_policy(blocks, rocksdb_filterpolicy_create_bloom_full(10))
        rocksdb_block_based_options_set_block_size(blocks, 16 << 10)
        rocksdb_block_based_options_set_format_version(blocks, 5)
        let tuning = rocksdb_options_create()
        rocksdb_options_set_create_if_missing(tuning, 1)
        rocksdb_options_set_create_missing_column_families(tuning, 1)
        rocksdb_options_set_block_based_table_factory(tuning, blocks)
        rocksdb_options_set_compression(tuning, CInt(rocksdb_lz4_compression))
        rocksdb_options_set_bottommost_compression(tuning, CInt(rocksdb_zstd_compression))
        rocksdb_options_set_write_buffer_size(tuning, 64 << 20)
        rocksdb_options_set_level_compaction_dynamic_level_bytes(tuning, 1)
        rocksdb_options_set_max_background_jobs(tuning, 2)
        rocksdb_options_set_bytes_per_sync(tuning, 1 << 20)
        rocksdb_options_set_recycle_log_file_num(tuning, 2)
        rocksdb_options_set_allow_concurrent_memtable_write(tuning, 0)
        rocksdb_options_set_keep_log_file_num(tuning, 1)
        if filtersMemtable {
            rocksdb_options_set_memtable_prefix_bloom_size_ratio(tuning, 0.1)
            rocksdb_options_set_memtable_whole_key_filtering(tuning, 1)
        }
        return tuning
    }
}
