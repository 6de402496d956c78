// A legacy HTTP server that can have one session only, in the ways in which servers of the TypeScript SDK get there.
//
//     node one_session_server.mjs transport   one transport: a second initialize is 400 "already initialized"
//     node one_session_server.mjs shown       one server object, the error shown by the web framework: 500, HTML
//     node one_session_server.mjs hidden      the same, caught: 500 "Internal server error", as the SDK's examples do
//     node one_session_server.mjs sse         one server object on HTTP+SSE: a second GET of /sse is 500
//     node one_session_server.mjs broken      no initialize works at all: 500 "Internal server error"
//
// Prints `listening on port N`. Tools: `count` (how often it was called, kept in memory), `name` (asks for one by form).

import { createRequire } from 'node:module';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { randomUUID } from 'node:crypto';

const here = path.dirname(fileURLToPath(import.meta.url));
const modules = process.env.MRTR_TEST_NODE_MODULES ?? path.join(here, 'node_modules');
const load = createRequire(path.join(modules, 'x.js'));
const { McpServer } = load('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = load('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { SSEServerTransport } = load('@modelcontextprotocol/sdk/server/sse.js');
const express = load('express');

const mode = process.argv[2];
const server = new McpServer({ name: 'one-session', version: '1' });
let calls = 0;
const text = value => ({ content: [{ type: 'text', text: String(value) }] });
server.registerTool('count', { description: 'counts' }, async () => text(++calls));
server.registerTool('name', { description: 'asks' }, async () => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const answer = await server.server.elicitInput({ message: 'Who?', requestedSchema });
    return text(answer.content?.name ?? answer.action);
});

const transports = new Map();

async function transportFor(request) {
    const id = request.headers['mcp-session-id'];
    if (id !== undefined || (mode === 'transport' && transports.size > 0)) {
        return transports.get(id) ?? [...transports.values()][0];
    }
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: session => transports.set(session, transport),
    });
    await server.connect(transport);
    return transport;
}

const app = express();
app.use(express.json());
app.all('/mcp', async (request, response) => {
    try {
        if (mode === 'broken') throw new Error('no database');
        await (await transportFor(request)).handleRequest(request, response, request.body);
    } catch (error) {
        if (mode === 'shown') throw error;
        const body = { jsonrpc: '2.0', error: { code: -32603, message: 'Internal server error' }, id: null };
        response.status(500).json(body);
    }
});
const streams = new Map();
app.get('/sse', async (request, response) => {
    const transport = new SSEServerTransport('/message', response);
    await server.connect(transport);
    streams.set(transport.sessionId, transport);
});
app.post('/message', (request, response) => streams.get(request.query.sessionId).handlePostMessage(request, response, request.body));
const listener = app.listen(0, '127.0.0.1', () => console.log(`listening on port ${listener.address().port}`));
