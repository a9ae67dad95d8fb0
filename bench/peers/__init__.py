"""The workload of `bench.join_workload` on other engines. Each script runs in a process of its own, prints lines of JSON."""
