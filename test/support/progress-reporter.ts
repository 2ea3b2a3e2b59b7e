// vitest's dots, a hundred a line where there is no terminal: logs of CI show a line when it ends. A test that fails is named at once.
import { DotReporter, type TestCase } from 'vitest/node';

export default class ProgressReporter extends DotReporter {
  #finished = 0;

  override onTestCaseResult(test: TestCase): void {
    super.onTestCaseResult(test);
    if (test.result().state === 'failed')
      this.log(`\nfailed: ${test.module.relativeModuleId} > ${test.fullName}`);
    this.#finished++;
    if (!this.isTTY && this.#finished % 100 === 0) this.log(` ${this.#finished}`);
  }
}
