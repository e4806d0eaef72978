import { defineConfig } from 'vitest/config';

// The tests of what needs no browser. Those in a browser are in e2e, with a configuration of their own.
export default defineConfig({ test: { include: ['test/**/*.test.ts'], environment: 'node' } });
