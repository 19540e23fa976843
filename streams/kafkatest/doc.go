// Package kafkatest starts real Apache Kafka for tests, with one broker or three, each of which can be killed,
// stopped, paused and started on its own, and gives a test a broker: the embedded one, or topics of its own on
// the cluster that CAIRN_TEST_KAFKA names. It is for tests only.
//
// deploy/kafka-test.sh fetches what it starts; Java 17 or newer must be there. Brokers end when the process that
// started them ends, however it ends.
package kafkatest
