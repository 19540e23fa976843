// Package stage is a whole installation for the chaos program: real Kafka, a private Postgres, a model server, and two
// processes of each role, every one of which can be killed, stopped and cut off. It injures nothing by itself.
package stage
