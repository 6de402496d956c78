// An old server in the idiom of its SDK, for the first and the last release of `@modelcontextprotocol/sdk` that can ask.
//
//     node server.mjs sdk-first|sdk-last stdio|http
//
// Over HTTP it prints `listening on http://127.0.0.1:N/mcp`. Tools, which all return JSON:
//   two(pause)    two questions, one after the other, with a pause between them, by `elicitInput` (on the GET stream)
//   labelled      the same by the handler's own `sendRequest` (on the stream of the call)
//   both          two questions at once
//   sample, roots what the client's model says, and its roots
//   careful       goes on without the answer when it may not ask

import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import path from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';

const [sdk, transport] = process.argv.slice(2);
const here = path.dirname(fileURLToPath(import.meta.url));
const load = createRequire(path.join(process.env.MRTR_TEST_MATRIX_MODULES ?? path.join(here, 'node', 'node_modules'), 'x.js'));
const { McpServer } = load(`${sdk}/server/mcp.js`);
const { StdioServerTransport } = load(`${sdk}/server/stdio.js`);
const { StreamableHTTPServerTransport } = load(`${sdk}/server/streamableHttp.js`);
const { ElicitResultSchema } = load(`${sdk}/types.js`);
const { z } = load('zod');

const form = message => ({
  message,
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] }
});
const said = value => ({ content: [{ type: 'text', text: JSON.stringify(value) }] });
const short = ({ action, content }) => (action === 'accept' ? content.name : action);

function build() {
  const mcp = new McpServer({ name: `matrix-${sdk}`, version: '1' });
  const ask = async message => short(await mcp.server.elicitInput(form(message)));
  const tool = (name, run) => mcp.registerTool(name, { description: name }, run);

  mcp.registerTool('two', { description: 'two', inputSchema: { pause: z.number() } }, async ({ pause }) => {
    const first = await ask('First?');
    await new Promise(resolve => setTimeout(resolve, pause * 1000));
    return said([first, await ask('Second?')]);
  });
  tool('labelled', async ({ sendRequest }) => {
    const label = async message =>
      short(await sendRequest({ method: 'elicitation/create', params: form(message) }, ElicitResultSchema));
    return said([await label('First?'), await label('Second?')]);
  });
  tool('both', async () => said(await Promise.all([ask('First?'), ask('Second?')])));
  tool('sample', async () => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'Say hello' } }];
    return said((await mcp.server.createMessage({ messages, maxTokens: 10 })).content.text);
  });
  tool('roots', async () => said((await mcp.server.listRoots()).roots.map(root => root.uri)));
  tool('careful', async () => said(await ask('May I?').catch(() => 'went on without')));
  return mcp;
}

if (transport === 'stdio') {
  await build().connect(new StdioServerTransport());
} else {
  const express = load('express');
  const app = express();
  const sessions = new Map();
  app.use(express.json());
  app.all('/mcp', async (request, response) => {
    let session = sessions.get(request.headers['mcp-session-id']);
    if (session === undefined) {
      if (request.body?.method !== 'initialize') {
        response.status(400).json({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'No valid session ID' } });
        return;
      }
      session = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: id => void sessions.set(id, session)
      });
      await build().connect(session);
    }
    await session.handleRequest(request, response, request.body);
  });
  const listener = app.listen(0, '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${listener.address().port}/mcp`);
  });
}
