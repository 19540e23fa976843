// Generated from handlers/rest/openapi.yaml by `npm run generate`. Do not edit.

export interface paths {
    "/": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What there is */
        get: operations["getIndex"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/accounts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** An account and its tokens */
        post: operations["register"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/chat": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A message, and its run's answer
         * @description As JSON it answers when the run has ended, or after 2 minutes with 202: look at its `Location`. With `Accept: text/event-stream` the frames of the socket come as they happen: `stream_start`, `stream_text`, `stream_block`, `stream_end`. The stream has no event ids: who loses it sends the request again under its `Idempotency-Key`, and is told from the start. Message and history may have 1 MiB together.
         */
        post: operations["chat"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Devices, and whether they are online */
        get: operations["listDevices"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One device */
        get: operations["getDevice"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device}/data-requests": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What a device was asked for, the newest first
         * @description Without content.
         */
        get: operations["listDataRequests"];
        put?: never;
        /**
         * Asks a device for rows
         * @description The device's own database is read, outside any run: nothing is changed. An absent device is waited for `wait_seconds`, and it has 30 s from the moment it is sent the question. The answer comes when there is one, or after 2 minutes with 202: look at its `Location`. `status` says whether rows came (`completed`) or why not (`failed`, `reason`). A result has 1 MiB at most: ask for less, with a filter or a limit.
         */
        post: operations["requestData"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device}/data-requests/{data_request}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a device was asked for, and its answer */
        get: operations["getDataRequest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device}/mutations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The writes that a device was asked to do, the newest first
         * @description Without content.
         */
        get: operations["listMutations"];
        put?: never;
        /**
         * Asks a device to write
         * @description A write on the device's own database, outside any run, approved by who sends this. It is done once: a client with a journal may be sent it again, to another an insert is sent once, and `outcome_unknown` says that nobody knows. An absent device is waited for `wait_seconds`. `action` is as in the socket's `tool_call`: an insert has `data` without `id`, an update `data.id` and `data.updates`, a delete `data.id`, a vector_upsert `data` with `id` and `content`, and `vector`.
         */
        post: operations["requestMutation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device}/mutations/{mutation}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A write, and what became of it */
        get: operations["getMutation"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/devices/{device}/mutations/{mutation}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Takes a write back that was not sent yet */
        post: operations["cancelMutation"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/effects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What is asked for and has no outcome yet
         * @description At most 200.
         */
        get: operations["listEffects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The account's events after a position, opened
         * @description As JSON a page of what is there. With `Accept: text/event-stream` it goes on: every event from `after` on, as it is committed, each once and in order, `id:` its position. Lost streams go on from `Last-Event-ID`; the contract is in docs/rest.md.
         */
        get: operations["listEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/me": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The caller's account */
        get: operations["getMe"];
        put?: never;
        post?: never;
        /**
         * Erases the account
         * @description Its keys are destroyed, and its content with them. It can't be undone.
         */
        delete: operations["eraseMe"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/requests/{request_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What became of a message
         * @description Whether a message with that `request_id` or `Idempotency-Key` was committed, and its run.
         */
        get: operations["getRequest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * An agent's runs, the newest first
         * @description Without content. In all threads of the account.
         */
        get: operations["listRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A run's whole record
         * @description Message, route, turns, tool calls, answer: content opened.
         */
        get: operations["getRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends a run that is active or waits */
        post: operations["cancelRun"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/runs/{run}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A run's answer as it comes
         * @description Server-Sent Events, the frames of the socket: `stream_start`, `stream_text`, `stream_block`, `stream_end`, with `run_id` where a socket has `request_id`. The run is told from the start; a lost stream goes on from `Last-Event-ID`, first with a `stream_block` of type `retry` that takes back what was not committed. After the end it is answered with 204, which ends a browser's EventSource.
         */
        get: operations["followRun"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/scopes/{scope}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The whole account as it was at a position
         * @description Time travel: everything that the account's events up to a position say, folded anew by the code that fills the read models. It takes the longer the more events there are. Lists have at most 200 elements; `counts` are of all.
         */
        get: operations["getScope"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Logs in */
        post: operations["logIn"];
        /**
         * Logs out
         * @description Ends the session that the refresh token belongs to. Whether there was one is not said.
         */
        delete: operations["logOut"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/sessions/refresh": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A new pair of tokens
         * @description The old refresh token is used up. It gets the same successor for 60 s more, should the answer have been lost; after that, using it ends its session.
         */
        post: operations["refresh"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/storage/vectors/embed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** The vector of a text */
        post: operations["embed"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/streams/{stream}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The events of one thing, opened
         * @description The history of a thread, a document, a device, by its stream's id. As JSON a page of what is there. With `Accept: text/event-stream` it goes on: every event from `after` on, as it is committed, each once and in order, `id:` its `seq`; and as `event: live` what is streaming now. Lost streams go on from `Last-Event-ID`.
         */
        get: operations["listStreamEvents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Threads, the latest active first */
        get: operations["listThreads"];
        put?: never;
        /** Opens a thread */
        post: operations["createThread"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{thread}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One thread */
        get: operations["getThread"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        /** Gives a thread another title */
        patch: operations["renameThread"];
        trace?: never;
    };
    "/api/v1/threads/{thread}/head": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A thread's newest seq */
        get: operations["getThreadHead"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{thread}/last": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The newest entry that a chat shows */
        get: operations["getLastEntry"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{thread}/last-message": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The newest answer as plain text */
        get: operations["getLastMessage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{thread}/runs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A thread's runs, the newest first
         * @description Without content.
         */
        get: operations["listThreadRuns"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/threads/{thread}/timeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A thread's entries, in ascending order
         * @description A page older: `?direction=before&seq=START_SEQ`; what is new: `?direction=after&seq=END_SEQ`. Numbers have no gaps; with `steps=false` some are not shown.
         */
        get: operations["getTimeline"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/v1/ws/tickets": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A ticket for the socket
         * @description It opens one socket, once, within 30 s.
         */
        post: operations["createTicket"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/asyncapi.yaml": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The document of the socket */
        get: operations["getAsyncAPI"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document, as a page */
        get: operations["getReference"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/docs/{file}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What that page needs */
        get: operations["getReferenceFile"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process answers */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document, as JSON */
        get: operations["getOpenAPIJSON"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.yaml": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["getOpenAPIYAML"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/problems/{code}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What a problem means
         * @description The address that a problem has as its `type`.
         */
        get: operations["getProblem"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process can do its work */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Account: {
            scope: string;
            tier: string;
            user_id: string;
        };
        AssistantItem: {
            agent: string;
            blocks?: components["schemas"]["Block"][];
            calls?: number;
            finish_reason: string;
            input_tokens?: number;
            metadata?: {
                [key: string]: string;
            };
            model: string;
            output_tokens?: number;
            run_id: string;
            /** @description As it was shown, blocks left out. */
            text: string;
            turn: number;
        };
        Block: {
            /** @description After that many bytes of text. */
            at: number;
            data: unknown;
            type: string;
        };
        /** @description One tool call, with all its steps. */
        Call: {
            /** @description In a run's own record only. */
            arguments?: unknown;
            /** Format: int64 */
            bytes?: number;
            /** @description In a run's own record only. */
            device_answer?: unknown;
            /** Format: date-time */
            ended_at?: string;
            id: string;
            index: number;
            /** @description Of a note that was not indexed: waiting, done, failed. */
            indexing?: string;
            mutations?: components["schemas"]["Mutation"][];
            not_indexed?: boolean;
            reason?: string;
            /** Format: uint64 */
            request_version: number;
            /** Format: date-time */
            requested_at: string;
            /** Format: uint64 */
            result_version?: number;
            /** @description requested, offered, completed, failed */
            status: string;
            steps: components["schemas"]["Step"][];
            /** @description In a run's own record only. */
            text?: string;
            tool: string;
            turn: number;
        };
        CancelledRun: {
            /** Format: date-time */
            at: string;
            run_id: string;
            session_id: string;
            status: string;
        };
        ChatAnswer: {
            agent?: string;
            metadata?: {
                [key: string]: string;
            };
            mutations: components["schemas"]["Mutation"][];
            request_id: string;
            response: string;
            run_id: string;
            session_id: string;
            /** @description `completed`, or `running` where it goes on. */
            status: string;
        };
        ChatMessage: {
            /** @description What was said before, of a new thread. */
            conversation_history?: components["schemas"]["Said"][] | null;
            /** @description Where tool calls go; absent: the device seen last. */
            device_id?: string | null;
            message: string;
            /**
             * @description What to do while a run is active.
             * @enum {string|null}
             */
            on_busy?: "queue" | "refuse" | "interrupt" | "" | null;
            project_id?: string | null;
            /** @description The thread; absent: a new one. */
            session_id?: string | null;
            /**
             * Format: timezone
             * @description An IANA name; absent: the device's.
             */
            timezone?: string | null;
        };
        Check: {
            detail?: string;
            name: string;
            ready: boolean;
        };
        Credentials: {
            email: string;
            password: string;
        };
        Device: {
            batch: boolean;
            id: string;
            /** Format: date-time */
            introduced_at: string;
            journal: boolean;
            /** Format: date-time */
            last_seen_at: string | null;
            name: string | null;
            online: boolean;
            protocol: number;
            timezone?: string;
            /** Format: date-time */
            updated_at: string;
            /** Format: uint64 */
            version: number;
        };
        DevicePage: {
            data: components["schemas"]["Device"][];
            nextCursor: string | null;
        };
        DeviceRequest: {
            action: string;
            /** @description The device's: rows, row, deleted, ok or error. Not in lists. */
            answer?: {
                [key: string]: unknown;
            };
            /**
             * Format: int64
             * @description The size of an answer that was too large.
             */
            bytes?: number;
            device_id: string;
            /** Format: date-time */
            ended_at?: string;
            id: string;
            /** @enum {string} */
            kind: "data" | "mutation";
            /** @description What the device answered after the outcome; it changed nothing of it. */
            late_answer?: {
                [key: string]: unknown;
            };
            /** @description What was changed. Not in lists. */
            mutations?: components["schemas"]["Mutation"][];
            /** Format: date-time */
            offered_at?: string;
            /** @description Why it failed: `device_error` (the device says so in `answer`), `bad_result`, `result_too_large`, `deadline` (sent, and not answered in 30 s), `device_offline`, `outcome_unknown`, `cancelled`. */
            reason?: string;
            /** @description What was asked: filters, data, limit, vector. Not in lists. */
            request?: {
                [key: string]: unknown;
            };
            /** Format: date-time */
            requested_at: string;
            /**
             * @description `offered`: the device has it.
             * @enum {string}
             */
            status: "waiting" | "offered" | "completed" | "failed";
            table?: string;
            /** @description The failure in words. */
            text?: string;
            /**
             * Format: date-time
             * @description Until then an absent device is waited for.
             */
            wait_until: string;
        };
        DeviceRequestPage: {
            data: components["schemas"]["DeviceRequest"][];
            nextCursor: string | null;
        };
        Effect: {
            device_id?: string;
            id: string;
            kind: string;
            /** Format: uint64 */
            position: number;
            repeatable: boolean;
            run_id?: string;
            /** Format: uint64 */
            seq: number;
            started: boolean;
            stream: string;
            /** @description A living worker has it. */
            taken: boolean;
        };
        EffectPage: {
            data: components["schemas"]["Effect"][];
            nextCursor: string | null;
        };
        Embedding: {
            vector: number[];
        };
        Entry: {
            at: string;
            /** @description The chain's hash after it. */
            hash: string;
            /** @description What it is, by its kind. */
            item: components["schemas"]["MessageItem"] | components["schemas"]["AssistantItem"] | components["schemas"]["ToolCallItem"] | components["schemas"]["ToolResultItem"] | components["schemas"]["RunEndItem"] | components["schemas"]["TitleItem"] | components["schemas"]["StepItem"];
            /** @description What a chat shows is `message`, `assistant`, `tool_call`, `tool_result`, `run_end`, `title`; everything else is a `step`. */
            kind: string;
            /** Format: uint64 */
            seq: number;
        };
        Event: {
            actor: {
                [key: string]: unknown;
            };
            at: string;
            /** @description What is sealed in the log, opened. */
            content?: unknown;
            /** @description What is clear in the log. */
            data: unknown;
            event_type: string;
            hash: string;
            id: string;
            /** Format: uint64 */
            position: number;
            schema: number;
            seal_digest?: string;
            /** Format: uint64 */
            seq: number;
            stream: string;
        };
        EventPage: {
            /**
             * Format: uint64
             * @description For the next request.
             */
            after: number;
            data: components["schemas"]["Event"][];
            /**
             * Format: uint64
             * @description The newest position.
             */
            head: number;
        };
        /** @description An attempt that failed; its words stand in a run's own record only. */
        Failure: {
            /** Format: date-time */
            at: string;
            attempt: number;
            class: string;
            detail?: string;
            /** Format: int64 */
            retry_after_ns?: number;
            /** Format: uint64 */
            version: number;
        };
        Fault: {
            detail: string;
            /** @description A JSON Pointer into the body, or a parameter's name. */
            pointer: string;
        };
        Focus: {
            id?: string;
            type: string;
        };
        LastEntry: {
            entry: components["schemas"]["Entry"] | null;
        };
        LastMessage: {
            at: string | null;
            /** Format: uint64 */
            seq: number | null;
            text: string | null;
        };
        MessageItem: {
            channel: string;
            conversation_history?: components["schemas"]["Said"][];
            device_id?: string;
            focus?: components["schemas"]["Focus"];
            project_id?: string;
            queued?: boolean;
            run_id: string;
            text: string;
        };
        /** @description What a tool changed on a device. */
        Mutation: {
            action: string;
            id: string;
            table: string;
        };
        NewDataRequest: {
            /** @enum {string} */
            action: "select" | "get";
            /** @description Of a get: which row. */
            data?: {
                id: string;
            };
            /** @description Of a select: projectId, status, search, orderBy, clientId, includeArchived, taskId, dueDateFrom, dueDateTo. */
            filters?: {
                [key: string]: unknown;
            };
            /** @description Of a select: how many rows at most. */
            limit?: number;
            /** @enum {string} */
            table: "tasks" | "projects" | "checkpoints" | "notes" | "taskComments" | "clients";
            /**
             * @description How long an absent device is waited for.
             * @default 30
             */
            wait_seconds: number;
        };
        NewMutation: {
            /** @enum {string} */
            action: "insert" | "update" | "delete" | "vector_upsert";
            data: {
                [key: string]: unknown;
            };
            /**
             * @description All but a vector_upsert need one.
             * @enum {string}
             */
            table?: "tasks" | "projects" | "checkpoints" | "notes" | "taskComments" | "clients";
            /** @description Of a vector_upsert. */
            vector?: number[];
            /**
             * @description How long an absent device is waited for.
             * @default 86400
             */
            wait_seconds: number;
        };
        NewThread: {
            title?: string | null;
        };
        NewTitle: {
            title: string;
        };
        PastDevice: {
            batch: boolean;
            id: string;
            /** Format: date-time */
            introduced_at: string;
            journal: boolean;
            protocol: number;
            timezone?: string;
            /** Format: date-time */
            updated_at: string;
            /** Format: uint64 */
            version: number;
        };
        PastEffect: {
            device_id?: string;
            id: string;
            kind: string;
            /** Format: uint64 */
            position: number;
            repeatable: boolean;
            run_id?: string;
            /** Format: uint64 */
            seq: number;
            started: boolean;
            stream: string;
        };
        Problem: {
            /** @description What programs look at. */
            code: string;
            detail?: string;
            /** @description Each wrong value. */
            errors?: components["schemas"]["Fault"][];
            /** @description The position that was waited for. */
            min_position?: string;
            numbers?: {
                [key: string]: number;
            };
            /** @description How far the read model is. */
            position?: string;
            run_id?: string;
            session_id?: string;
            status: number;
            title: string;
            /** @description The request's id, also in `X-Request-Id` and in the server's log. */
            traceId: string;
            /** @description The address that says what it means. */
            type: string;
        };
        ProblemKind: {
            about: string;
            code: string;
            status: number;
            title: string;
        };
        Readiness: {
            checks?: components["schemas"]["Check"][];
            ready: boolean;
        };
        RefreshToken: {
            refresh_token: string;
        };
        Registration: {
            /**
             * Format: email
             * @description At most 254 bytes.
             */
            email: string;
            password: string;
        };
        RenamedThread: {
            id: string;
            title: string;
            /** Format: uint64 */
            version?: number;
        };
        RequestState: {
            committed: boolean;
            request_id: string;
            run_id?: string;
            /** Format: uint64 */
            seq?: number;
            session_id?: string;
            status?: string;
        };
        /** @description How the agent was chosen. */
        Route: {
            attempts: number;
            /** Format: date-time */
            decided_at?: string;
            failures?: components["schemas"]["Failure"][];
            fallback?: boolean;
            model?: string;
            /** Format: date-time */
            requested_at: string;
        };
        /** @description What a run did, without content: ids, counts, statuses and times. */
        Run: {
            agent?: string;
            /** Format: uint64 */
            answer_version?: number;
            attempts?: number;
            calls?: components["schemas"]["Call"][];
            cancelled_by?: string;
            channel: string;
            device?: string;
            /** Format: uint64 */
            end_version?: number;
            /** Format: date-time */
            ended_at?: string;
            error?: components["schemas"]["RunError"];
            focus?: components["schemas"]["Focus"];
            id: string;
            input_tokens?: number;
            late_results?: number;
            /** Format: uint64 */
            message_version: number;
            metadata?: {
                [key: string]: string;
            };
            mutations?: components["schemas"]["Mutation"][];
            output_tokens?: number;
            /** Format: date-time */
            posted_at: string;
            route?: components["schemas"]["Route"];
            /** Format: uint64 */
            start_version?: number;
            /** Format: date-time */
            started_at?: string;
            /** @description queued, running, waiting, completed, failed, cancelled */
            status: string;
            thread: string;
            timezone?: string;
            turns?: components["schemas"]["Turn"][];
            warnings?: string[];
        };
        RunEndItem: {
            by?: string;
            code?: string;
            reason?: string;
            run_id: string;
            /** @description completed, failed, cancelled */
            status: string;
            turns?: number;
        };
        RunError: {
            code: string;
            reason: string;
        };
        RunPage: {
            data: components["schemas"]["Run"][];
            nextCursor: string | null;
        };
        /** @description A run with its content opened: what was asked, what each turn said, what each tool was given and answered. */
        RunRecord: components["schemas"]["Run"] & {
            answer: string;
            message: string;
            session_id: string;
        };
        Said: {
            content: string;
            /** @enum {string} */
            role: "user" | "assistant";
        };
        Scope: {
            /** @description When the last event that counts was decided; null: there is none. */
            at: string | null;
            counts: components["schemas"]["ScopeCounts"];
            devices: components["schemas"]["PastDevice"][];
            /** @description What was asked for and had no outcome yet, the oldest first. */
            open_effects: components["schemas"]["PastEffect"][];
            /** @description That had not ended, the newest first. */
            open_runs: components["schemas"]["Run"][];
            /** Format: uint64 */
            position: number;
            scope: string;
            /** @description The latest active first. */
            threads: components["schemas"]["Thread"][];
            /** @description That were set, the next due first. */
            timers: components["schemas"]["Timer"][];
        };
        ScopeCounts: {
            devices: number;
            /** Format: uint64 */
            messages: number;
            open_effects: number;
            /** @description By status. */
            runs: {
                [key: string]: number;
            };
            threads: number;
            timers: number;
        };
        Session: {
            /** Format: date-time */
            access_expires_at: string;
            access_token: string;
            account: components["schemas"]["Account"];
            /** Format: date-time */
            refresh_expires_at: string;
            refresh_token: string;
            /** @description Bearer */
            token_type: string;
        };
        /** @description One thing that was done for a call. */
        Step: {
            action?: string;
            background?: boolean;
            device?: string;
            /** Format: date-time */
            ended_at?: string;
            executor: string;
            /** Format: date-time */
            offered_at?: string;
            /** Format: date-time */
            requested_at: string;
            started?: boolean;
            step: number;
            table?: string;
            then?: string;
        };
        StepItem: {
            content?: unknown;
            data: unknown;
            schema: number;
            /** @description The event's wire name. */
            type: string;
        };
        TextToEmbed: {
            /** @description At most 64 KiB. */
            text: string;
        };
        Thread: {
            active_run: string | null;
            /** Format: date-time */
            created_at: string;
            id: string;
            /** Format: date-time */
            last_activity: string;
            /** Format: uint64 */
            messages: number;
            title: string | null;
            /**
             * Format: uint64
             * @description The seq of its newest event.
             */
            version: number;
        };
        ThreadPage: {
            data: components["schemas"]["Thread"][];
            nextCursor: string | null;
        };
        Ticket: {
            /** Format: date-time */
            expires_at: string;
            ticket: string;
        };
        Timeline: {
            direction: string;
            /** Format: uint64 */
            end_seq: number | null;
            entries: components["schemas"]["Entry"][];
            has_newer: boolean;
            has_older: boolean;
            /** Format: uint64 */
            start_seq: number | null;
            window: components["schemas"]["Window"];
        };
        Timer: {
            /** Format: date-time */
            due: string;
            id: string;
            /** Format: uint64 */
            position: number;
            run_id?: string;
            stream: string;
        };
        TitleItem: {
            text: string;
        };
        Tokens: {
            /** Format: date-time */
            access_expires_at: string;
            access_token: string;
            /** Format: date-time */
            refresh_expires_at: string;
            refresh_token: string;
            /** @description Bearer */
            token_type: string;
        };
        ToolCallItem: {
            action?: string;
            arguments?: unknown;
            call_id: string;
            device_id?: string;
            executor: string;
            index: number;
            run_id: string;
            table?: string;
            tool: string;
            turn: number;
        };
        ToolResultItem: {
            /** Format: int64 */
            bytes?: number;
            call_id: string;
            /** @description The device's answer. */
            device?: unknown;
            mutations?: components["schemas"]["Mutation"][];
            not_indexed?: boolean;
            ok: boolean;
            reason?: string;
            run_id: string;
            text?: string;
        };
        /** @description One turn of the model, with all its attempts. */
        Turn: {
            agent: string;
            /** Format: date-time */
            attempt_at: string;
            attempts: number;
            calls?: number;
            /** Format: date-time */
            completed_at?: string;
            failures?: components["schemas"]["Failure"][];
            finish_reason?: string;
            input_tokens?: number;
            metadata?: {
                [key: string]: string;
            };
            model?: string;
            no_tools?: boolean;
            output_tokens?: number;
            /** Format: date-time */
            requested_at: string;
            /** @description requested, completed, failed */
            status: string;
            /** @description In a run's own record only. */
            text?: string;
            turn: number;
            /** Format: uint64 */
            version?: number;
            warnings?: string[];
        };
        Window: {
            /** Format: uint64 */
            max_seq: number;
            /** Format: uint64 */
            min_seq: number;
            /** Format: uint64 */
            next_seq: number;
            /**
             * Format: uint64
             * @description Entries with a lower seq were deleted from the read model, and no page has them: `has_older` is about those that are there. Absent: nothing was deleted.
             */
            pruned_before?: number;
        };
    };
    responses: {
        /** @description `malformed`, `malformed_position`, `foreign_position`: it can't be read. */
        BadRequest: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `busy`, `queue_full`, `run_ended`, `run_cancelled`, `email_taken`, `not_finalized`, `position_unknown`, `conflict`: the present state does not allow it. */
        Conflict: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `scope_erased`: the account was erased. */
        Erased: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `reset`: you are too far behind to go on from there, load what you follow anew; `pruned`: events that this needs were deleted; `scope_erased`: the account was erased. */
        Gone: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `invalid`: `errors` points at each wrong value; `id_reused`: the Idempotency-Key belongs to another request. */
        Invalid: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `not_found`: there is nothing with that name that belongs to you. */
        NotFound: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description You have the newest version. */
        NotModified: {
            headers: {
                ETag: components["headers"]["ETag"];
                Position: components["headers"]["Position"];
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description `behind`: not within 2 s; `paused`, `stopped`: at once. Both positions are in it. Or `unavailable`: a part is away. */
        NotThere: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description Something went wrong; `code` says what. */
        Otherwise: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `outcome_unknown`: repeat it with the same Idempotency-Key; it is done once. */
        OutcomeUnknown: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `position_unknown`: min_position lies beyond the end of the log. */
        PositionUnknown: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `precondition_failed`: If-Match names another version than the newest. */
        PreconditionFailed: {
            headers: {
                ETag: components["headers"]["ETag"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `run_failed`: the model or a tool could not do it; `run_id` and `session_id` say which. */
        RunFailed: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `too_large`: the detail says how much is allowed. */
        TooLarge: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `rate_limited`: you; `overloaded`: the system. Nothing was done. */
        TooManyRequests: {
            headers: {
                RateLimit: components["headers"]["RateLimit"];
                "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `rate_limited`: you follow too many streams at once. */
        TooManyStreams: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unauthorized`: no access token, or a wrong or expired one; `bad_credentials`. */
        Unauthorized: {
            headers: {
                "WWW-Authenticate"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description `unavailable`: a part is away. Nothing was done. */
        Unavailable: {
            headers: {
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
        /** @description It is what you have. */
        Unchanged: {
            headers: {
                [name: string]: unknown;
            };
            content?: never;
        };
        /** @description `unsupported_media_type`: bodies are application/json in UTF-8. */
        UnsupportedMediaType: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": components["schemas"]["Problem"];
            };
        };
    };
    parameters: {
        /** @description Only of a stream: the hash of the event at `after`. Where another one is there, the stream begins with `event: reset`. */
        AfterHash: string;
        /** @description The `nextCursor` of the page before. */
        Cursor: string;
        /** @description The device's id. */
        DeviceID: string;
        /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
        IdempotencyKey: string;
        /** @description An `ETag`: 412 where it is not the newest. */
        IfMatch: string;
        /** @description An `ETag` that one has: 304 where it is the newest. */
        IfNoneMatch: string;
        /** @description Only of a stream: the last `id` that came. It counts instead of `after`. */
        LastEventID: number;
        /** @description How many at most. */
        Limit: number;
        /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
        MinPosition: string;
        /** @description The run's id. */
        RunID: string;
        /** @description Only of a stream: each event has `stored`, what was stored byte for byte, to verify hash and digest by. */
        Stored: boolean;
        /** @description The thread's id. */
        ThreadID: string;
    };
    requestBodies: never;
    headers: {
        /** @description The stream's version, such as `"v7"`. */
        ETag: string;
        /** @description `true`: it was done before; this is the same answer. */
        IdempotencyReplayed: string;
        /** @description The next page's address (`rel="next"`). */
        Link: string;
        /** @description Where it is found. */
        Location: string;
        /** @description Where the account stood: a `min_position` for any read, and an `after` for a subscription. */
        Position: string;
        /** @description What is left: `"commands";r=39;t=0` (IETF draft). */
        RateLimit: string;
        /** @description What is allowed: `"commands";q=40;w=2` (IETF draft). */
        RateLimitPolicy: string;
        /** @description Seconds to wait. */
        RetryAfter: number;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    getIndex: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page with links. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            304: components["responses"]["Unchanged"];
        };
    };
    register: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Registration"];
            };
        };
        responses: {
            /** @description It is made, and you are in. */
            201: {
                headers: {
                    Location: components["headers"]["Location"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["BadRequest"];
            409: components["responses"]["Conflict"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Otherwise"];
        };
    };
    chat: {
        parameters: {
            query?: never;
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChatMessage"];
            };
        };
        responses: {
            /** @description The answer; or the frames, as they come. */
            200: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChatAnswer"];
                    "text/event-stream": string;
                };
            };
            /** @description It goes on; its record is at `Location`. */
            202: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChatAnswer"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Gone"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            502: components["responses"]["RunFailed"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    listDevices: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All of them. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DevicePage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getDevice: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The device's id. */
                device: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The device. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Device"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    listDataRequests: {
        parameters: {
            query?: {
                /** @description The `nextCursor` of the page before. */
                cursor?: components["parameters"]["Cursor"];
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of them. */
            200: {
                headers: {
                    Link: components["headers"]["Link"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequestPage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    requestData: {
        parameters: {
            query?: never;
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewDataRequest"];
            };
        };
        responses: {
            /** @description It has its outcome. */
            200: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequest"];
                };
            };
            /** @description It waits for the device; it is at `Location`. */
            202: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequest"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Gone"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    getDataRequest: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description Its id. */
                data_request: string;
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It, and what became of it. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequest"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    listMutations: {
        parameters: {
            query?: {
                /** @description The `nextCursor` of the page before. */
                cursor?: components["parameters"]["Cursor"];
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of them. */
            200: {
                headers: {
                    Link: components["headers"]["Link"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequestPage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    requestMutation: {
        parameters: {
            query?: never;
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewMutation"];
            };
        };
        responses: {
            /** @description It is sent to the device as soon as that is there; it is at `Location`. */
            202: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequest"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Gone"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    getMutation: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
                /** @description Its id. */
                mutation: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It, and what became of it. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequest"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    cancelMutation: {
        parameters: {
            query?: never;
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                /** @description The device's id. */
                device: components["parameters"]["DeviceID"];
                /** @description Its id. */
                mutation: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled. */
            200: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeviceRequest"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    listEffects: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The open effects. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectPage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    listEvents: {
        parameters: {
            query?: {
                /** @description The last position that one has; 0 is the beginning. Absent: the beginning as JSON, and as a stream from now on. */
                after?: number;
                /** @description Only of a stream: the hash of the event at `after`. Where another one is there, the stream begins with `event: reset`. */
                after_hash?: components["parameters"]["AfterHash"];
                /** @description Only of a stream: events of the runs that this agent answers. */
                agent_id?: string;
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
                /** @description Only of a stream: each event has `stored`, what was stored byte for byte, to verify hash and digest by. */
                stored?: components["parameters"]["Stored"];
                /** @description Only of a stream: events of these types, such as `thread.titled,thread.run_started`. */
                types?: string;
            };
            header?: {
                /** @description Only of a stream: the last `id` that came. It counts instead of `after`. */
                "Last-Event-ID"?: components["parameters"]["LastEventID"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, in order and without a gap. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyStreams"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getMe: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The account. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    eraseMe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is gone. */
            204: {
                headers: {
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            401: components["responses"]["Unauthorized"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    getRequest: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The id, as it was sent. */
                request_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What is known of it. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RequestState"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    listRuns: {
        parameters: {
            query: {
                /** @description The agent's name, as a run's `agent` says it. */
                agent: string;
                /** @description The `nextCursor` of the page before. */
                cursor?: components["parameters"]["Cursor"];
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of them. */
            200: {
                headers: {
                    Link: components["headers"]["Link"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunPage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getRun: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: {
                /** @description An `ETag` that one has: 304 where it is the newest. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /** @description The run's id. */
                run: components["parameters"]["RunID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The record. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunRecord"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    cancelRun: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path: {
                /** @description The run's id. */
                run: components["parameters"]["RunID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled. */
            200: {
                headers: {
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CancelledRun"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["NotThere"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    followRun: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: {
                /** @description The last `id` that came. */
                "Last-Event-ID"?: string;
            };
            path: {
                /** @description The run's id. */
                run: components["parameters"]["RunID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The frames, as they come. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description You have all of it. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyStreams"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getScope: {
        parameters: {
            query?: {
                /** @description The position of the last event that counts; absent: the newest. */
                at?: number;
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description Your account's `scope`, as `GET /me` says it. */
                scope: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The account then. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Scope"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    logIn: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Credentials"];
            };
        };
        responses: {
            /** @description You are in. */
            200: {
                headers: {
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Session"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Otherwise"];
        };
    };
    logOut: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RefreshToken"];
            };
        };
        responses: {
            /** @description There is no such session any more. */
            204: {
                headers: {
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["BadRequest"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Otherwise"];
        };
    };
    refresh: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RefreshToken"];
            };
        };
        responses: {
            /** @description The new pair. */
            200: {
                headers: {
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Tokens"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Otherwise"];
        };
    };
    embed: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TextToEmbed"];
            };
        };
        responses: {
            /** @description The vector. */
            200: {
                headers: {
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Embedding"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Otherwise"];
        };
    };
    listStreamEvents: {
        parameters: {
            query?: {
                /** @description The last `seq` that one has; 0 is the beginning. Absent: the beginning as JSON, and as a stream from now on. */
                after?: number;
                /** @description Only of a stream: the hash of the event at `after`. Where another one is there, the stream begins with `event: reset`. */
                after_hash?: components["parameters"]["AfterHash"];
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
                /** @description Only of a stream: each event has `stored`, what was stored byte for byte, to verify hash and digest by. */
                stored?: components["parameters"]["Stored"];
            };
            header?: {
                /** @description Only of a stream: the last `id` that came. It counts instead of `after`. */
                "Last-Event-ID"?: components["parameters"]["LastEventID"];
            };
            path: {
                /** @description The stream's id, such as `thread-…`. */
                stream: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, in order and without a gap. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventPage"];
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyStreams"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    listThreads: {
        parameters: {
            query?: {
                /** @description The `nextCursor` of the page before. */
                cursor?: components["parameters"]["Cursor"];
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of them. */
            200: {
                headers: {
                    Link: components["headers"]["Link"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadPage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    createThread: {
        parameters: {
            query?: never;
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewThread"];
            };
        };
        responses: {
            /** @description It is open. */
            201: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Location: components["headers"]["Location"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Thread"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Erased"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    getThread: {
        parameters: {
            query?: {
                /** @description Time travel: the thread as it was after the event with this `seq`. */
                at?: number;
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: {
                /** @description An `ETag` that one has: 304 where it is the newest. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The thread. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Thread"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Gone"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    renameThread: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: {
                /** @description Names the command: the same key, method, path and body is done once and answered the same, for ever. Another request under it is refused. Keys and the socket's `request_id`s are one namespace. */
                "Idempotency-Key"?: components["parameters"]["IdempotencyKey"];
                /** @description An `ETag`: 412 where it is not the newest. */
                "If-Match"?: components["parameters"]["IfMatch"];
            };
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NewTitle"];
            };
        };
        responses: {
            /** @description It has it. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    "Idempotency-Replayed": components["headers"]["IdempotencyReplayed"];
                    Position: components["headers"]["Position"];
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RenamedThread"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["Conflict"];
            410: components["responses"]["Erased"];
            412: components["responses"]["PreconditionFailed"];
            413: components["responses"]["TooLarge"];
            415: components["responses"]["UnsupportedMediaType"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["NotThere"];
            504: components["responses"]["OutcomeUnknown"];
            default: components["responses"]["Otherwise"];
        };
    };
    getThreadHead: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: {
                /** @description An `ETag` that one has: 304 where it is the newest. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The window of its seqs. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Window"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getLastEntry: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entry, or null where there is none. Where it may have been deleted: 410 `pruned`. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LastEntry"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getLastMessage: {
        parameters: {
            query?: {
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The answer, Markdown removed; nulls where there is none. Where it may have been deleted: 410 `pruned`. */
            200: {
                headers: {
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LastMessage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    listThreadRuns: {
        parameters: {
            query?: {
                /** @description The `nextCursor` of the page before. */
                cursor?: components["parameters"]["Cursor"];
                /** @description How many at most. */
                limit?: components["parameters"]["Limit"];
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
            };
            header?: never;
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page of them. */
            200: {
                headers: {
                    Link: components["headers"]["Link"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RunPage"];
                };
            };
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    getTimeline: {
        parameters: {
            query?: {
                /** @description `tail`: the newest; `before` or `after`: from `seq`, which they need. */
                direction?: "tail" | "before" | "after";
                /** @description How many at most; 0: everything, streamed. */
                limit?: number;
                /** @description A `Position` that an answer carried: the read waits up to 2 s until it shows what was written there. */
                min_position?: components["parameters"]["MinPosition"];
                /** @description Where a page begins. */
                seq?: number;
                /** @description `false`: only what a chat shows. */
                steps?: boolean;
            };
            header?: {
                /** @description An `ETag` that one has: 304 where it is the newest. */
                "If-None-Match"?: components["parameters"]["IfNoneMatch"];
            };
            path: {
                /** @description The thread's id. */
                thread: components["parameters"]["ThreadID"];
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The entries, and what lies around them. */
            200: {
                headers: {
                    ETag: components["headers"]["ETag"];
                    Position: components["headers"]["Position"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Timeline"];
                };
            };
            304: components["responses"]["NotModified"];
            400: components["responses"]["BadRequest"];
            401: components["responses"]["Unauthorized"];
            404: components["responses"]["NotFound"];
            409: components["responses"]["PositionUnknown"];
            410: components["responses"]["Erased"];
            422: components["responses"]["Invalid"];
            503: components["responses"]["NotThere"];
            default: components["responses"]["Otherwise"];
        };
    };
    createTicket: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The ticket. */
            201: {
                headers: {
                    RateLimit: components["headers"]["RateLimit"];
                    "RateLimit-Policy": components["headers"]["RateLimitPolicy"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Ticket"];
                };
            };
            401: components["responses"]["Unauthorized"];
            422: components["responses"]["Invalid"];
            429: components["responses"]["TooManyRequests"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Otherwise"];
        };
    };
    getAsyncAPI: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description AsyncAPI 3.1. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/yaml": string;
                };
            };
            304: components["responses"]["Unchanged"];
        };
    };
    getReference: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html": string;
                };
            };
            304: components["responses"]["Unchanged"];
        };
    };
    getReferenceFile: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                file: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/javascript": string;
                    "text/plain": string;
                };
            };
            304: components["responses"]["Unchanged"];
            404: components["responses"]["NotFound"];
        };
    };
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
        };
    };
    getOpenAPIJSON: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            304: components["responses"]["Unchanged"];
        };
    };
    getOpenAPIYAML: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/yaml": string;
                };
            };
            304: components["responses"]["Unchanged"];
        };
    };
    getProblem: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A problem's code. */
                code: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description What it means. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ProblemKind"];
                };
            };
            404: components["responses"]["NotFound"];
        };
    };
    readyz: {
        parameters: {
            query?: {
                /** @description Tell every check. */
                verbose?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description It can't; the checks say why. */
            503: {
                headers: {
                    "Retry-After": components["headers"]["RetryAfter"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
        };
    };
}
