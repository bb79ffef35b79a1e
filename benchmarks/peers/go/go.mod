module keyway_bench_peers

go 1.19
