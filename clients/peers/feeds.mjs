// Reads what `kcat -J` prints of a feed, and hands each record to the CloudEvents library for JavaScript, which nobody
// at Cairn wrote: its Kafka binding, its validation. Prints each event as the library understood it, one a line.
import { createInterface } from "node:readline";
import { Kafka } from "cloudevents";

for await (const line of createInterface({ input: process.stdin })) {
  const record = JSON.parse(line);
  const headers = {};
  for (let i = 0; i < record.headers.length; i += 2) headers[record.headers[i]] = record.headers[i + 1];
  const message = { headers, key: record.key, value: record.payload, body: record.payload };
  if (!Kafka.isEvent(message)) throw new Error(`no CloudEvent: ${line}`);
  const event = Kafka.toEvent(message);
  event.validate();
  // What the library writes again, in the other mode, is the same event.
  const again = Kafka.toEvent(Kafka.structured(event));
  if (again.id !== event.id || JSON.stringify(again.data) !== JSON.stringify(event.data)) throw new Error(`changed: ${line}`);
  console.log(JSON.stringify(event));
}
