// Package projectionstest compares read models with the log: it dumps all of their tables in one snapshot with their
// checkpoints, folds the log into an empty database up to exactly these, and says by key where the two differ. It is
// for tests; the engine is not used for the fold, only the projectors are.
//
//	live, err := projectionstest.Take(ctx, pool)
//	fold, err := projectionstest.Fold(ctx, fresh, tailer, schema, live)
//	faults := projectionstest.Compare(live, fold)
package projectionstest
