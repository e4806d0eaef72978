import { defineConfig } from 'vitest/config';

// The console in a real browser, against the real server. One browser and one server at a time.
export default defineConfig({
  test: { include: ['e2e/**/*.e2e.ts'], environment: 'node', testTimeout: 240_000, hookTimeout: 240_000, fileParallelism: false, maxWorkers: 1 },
});
