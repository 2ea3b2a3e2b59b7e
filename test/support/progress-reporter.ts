// vitest's dots, a hundred a line where there is no terminal: logs of CI show a line when it ends. A test that fails is named at once, and
// those that were left out at the end.
import { DotReporter, type TestCase, type TestModule } from 'vitest/node';

export default class ProgressReporter extends DotReporter {
  #finished = 0;

  override onTestCaseResult(test: TestCase): void {
    super.onTestCaseResult(test);
    if (test.result().state === 'failed')
      this.log(`\nfailed: ${test.module.relativeModuleId} > ${test.fullName}`);
    this.#finished++;
    if (!this.isTTY && this.#finished % 100 === 0) this.log(` ${this.#finished}`);
  }

  override onTestRunEnd(...run: Parameters<DotReporter['onTestRunEnd']>): void {
    super.onTestRunEnd(...run);
    // Whoever chooses tests by their names knows that others are left out.
    if (this.ctx.config.testNamePattern) return;
    for (const [words, count] of run[0].flatMap((module) => [...leftOut(module)]))
      this.log(`left out: ${words}${count > 1 ? ` (${String(count)} tests)` : ''}`);
  }
}

/** The tests of a file that were skipped: how many of each suite that was skipped as a whole, others by their own name. */
function leftOut(module: TestModule): Map<string, number> {
  const counts = new Map<string, number>();
  for (const test of module.children.allTests('skipped')) {
    const { parent } = test;
    const isWhole = parent.type === 'suite' && [...parent.children.allTests()].every(isSkipped);
    const { note } = test.result() as { note?: string };
    const words = `${isWhole ? parent.fullName : test.fullName}${note ? `: ${note}` : ''}`;
    const title = `${module.relativeModuleId} > ${words}`;
    counts.set(title, (counts.get(title) ?? 0) + 1);
  }
  return counts;
}

function isSkipped(test: TestCase): boolean {
  return test.result().state === 'skipped';
}
