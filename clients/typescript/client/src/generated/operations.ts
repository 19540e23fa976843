// Generated from handlers/rest/openapi.yaml by `npm run generate`. Do not edit.

/** Operations that take an Idempotency-Key. */
export const takesKey: ReadonlySet<string> = new Set([
  "POST /api/v1/chat",
  "POST /api/v1/threads",
  "PATCH /api/v1/threads/{thread}",
  "POST /api/v1/runs/{run}/cancel",
  "POST /api/v1/devices/{device}/data-requests",
  "POST /api/v1/devices/{device}/mutations",
  "POST /api/v1/devices/{device}/mutations/{mutation}/cancel"
]);

/** Operations that take a min_position. */
export const takesPosition: ReadonlySet<string> = new Set([
  "GET /api/v1/me",
  "GET /api/v1/requests/{request_id}",
  "GET /api/v1/threads",
  "GET /api/v1/threads/{thread}",
  "PATCH /api/v1/threads/{thread}",
  "GET /api/v1/threads/{thread}/timeline",
  "GET /api/v1/threads/{thread}/head",
  "GET /api/v1/threads/{thread}/last",
  "GET /api/v1/threads/{thread}/last-message",
  "GET /api/v1/threads/{thread}/runs",
  "GET /api/v1/runs",
  "GET /api/v1/runs/{run}",
  "GET /api/v1/runs/{run}/events",
  "POST /api/v1/runs/{run}/cancel",
  "GET /api/v1/devices",
  "GET /api/v1/devices/{device}",
  "GET /api/v1/devices/{device}/data-requests",
  "GET /api/v1/devices/{device}/data-requests/{data_request}",
  "GET /api/v1/devices/{device}/mutations",
  "GET /api/v1/devices/{device}/mutations/{mutation}",
  "GET /api/v1/events",
  "GET /api/v1/streams/{stream}/events",
  "GET /api/v1/scopes/{scope}",
  "GET /api/v1/effects"
]);
