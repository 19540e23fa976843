// Package history judges a run of the ring from outside: a Recorder keeps what clients asked and were told, and Check
// compares that with the raw log, read whole at least twice, and with the commands that led to it. It decodes records, counts them, chains hashes and places
// scopes by code of its own, so that a mistake of the product is not repeated here. It is for tests; it mends nothing.
//
//	rec := history.New()
//	op := rec.Invoke("client 3", history.Request{Scope: scope, CommandID: id, Fingerprint: string(body)})
//	op.Ended(asker.Ask(ctx, command))
//	…
//	first, err := history.Read(ctx, config)
//	second, err := history.Read(ctx, config)
//	verdict := history.Check(history.Evidence{History: rec, Logs: []*history.Log{first, second}})
//	if err := verdict.Err(); err != nil { … }
package history
