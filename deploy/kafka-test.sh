#!/usr/bin/env bash
# Fetches Apache Kafka for the tests into .kafka/jars of this checkout, from Maven Central by Maven, checksums
# verified. It starts nothing: `go run ./streams/kafkatest/shared` does. Safe to run again, and asks nobody
# where the jars are there.
set -euo pipefail

kafka=4.3.1
slf4j=1.7.36 # the version that Kafka's own pom brings
here=$(cd "$(dirname "$0")/.." && pwd)
home=$here/.kafka
done=$home/jars/.kafka-$kafka

say() { printf 'kafka-test: %s\n' "$*"; }

if [ -f "$done" ]; then
  exit 0
fi
for program in java mvn; do
  command -v $program >/dev/null || { say "needs $program: run deploy/setup.sh kafka, then this again" >&2; exit 1; }
done

mkdir -p "$home"
# Two checkouts never share this folder, but two targets of one may run at once.
if command -v flock >/dev/null; then
  exec 9>"$home/.lock"
  flock 9
  if [ -f "$done" ]; then
    exit 0
  fi
fi

cat > "$home/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>cairn</groupId>
  <artifactId>kafka-for-tests</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>$kafka</version></dependency>
    <dependency><groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>$slf4j</version></dependency>
  </dependencies>
</project>
POM

say "fetching Apache Kafka $kafka (about 130 MB, once)"
rm -rf "$home/jars.new"
mvn -q -B -C -f "$home/pom.xml" "-Dmaven.repo.local=$home/repo.local" \
  org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies \
  -DincludeScope=runtime "-DoutputDirectory=$home/jars.new"
# The folder counts only when it is whole.
ls "$home/jars.new/kafka_2.13-$kafka.jar" >/dev/null
touch "$home/jars.new/.kafka-$kafka"
rm -rf "$home/jars"
mv "$home/jars.new" "$home/jars"
rm -rf "$home/repo.local"
say "Apache Kafka $kafka is in $home/jars"
