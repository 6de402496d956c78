// The official TypeScript client with one open subscription, driven line by line: JSON on stdin, JSON on stdout.
//
// Argument: { target: { url } | { command, args, cwd }, filter }
// In:  { name, arguments }: a tool to call; { close: true }: end the subscription.
// Out: { acknowledged: filter }, { event: method, params }, { result }, { closed: "local" | "graceful" | "remote" }

import { createRequire } from 'node:module';
import { join } from 'node:path';
import process from 'node:process';
import { createInterface } from 'node:readline';

const modules = process.env.MRTR_TEST_NODE_MODULES;
const require = createRequire(modules ? join(modules, 'listener.mjs') : import.meta.url);
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const { target, filter } = JSON.parse(process.argv[2]);
const say = what => process.stdout.write(`${JSON.stringify(what)}\n`);

const client = new Client({ name: 'typescript-peer', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } });
for (const method of ['tools/list_changed', 'prompts/list_changed', 'resources/list_changed', 'resources/updated']) {
  client.setNotificationHandler(`notifications/${method}`, ({ method, params }) => say({ event: method, params }));
}
const { url, command, args, cwd } = target;
await client.connect(
  url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command, args, cwd, env: { ...process.env }, stderr: 'inherit' })
);
const subscription = await client.listen(filter);
subscription.closed.then(closed => say({ closed }));
say({ acknowledged: subscription.honoredFilter });

for await (const line of createInterface({ input: process.stdin })) {
  const { close, ...call } = JSON.parse(line);
  if (close) {
    await subscription.close();
  } else {
    say({ result: await client.callTool(call) });
  }
}
await client.close().catch(() => {});
process.exit(0);
