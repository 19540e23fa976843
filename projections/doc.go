// Package projections folds the log into tables of Postgres: one reader per partition feeds every read
// model, which moves together with its checkpoint in one transaction. It waits for positions and wakes
// readers. It is no read model itself and needs no keys: models take events from their clear data.
package projections
