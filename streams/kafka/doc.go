// Package kafka is the log on Kafka's protocol: its topics, the writer that leads a partition and decides
// its commands, asking, tailing by the acceptance rule, live frames, and the embedded broker. It holds no
// SQL and no secrets: states, answers and keys reach it through the ports in streams.
//
// The writer reads from top to bottom in these files: writer.go (which partitions), lead.go (replay and
// claim), writer_serve.go (the loop of a lead), writer_intake.go (commands in), writer_decide.go (the
// decision), writer_out.go (what goes out besides the log), and states_*.go (what it knows: book, cache,
// window of ids, loading, storing).
package kafka
