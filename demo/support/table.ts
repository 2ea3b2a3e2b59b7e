// The table at the end of a show.

/** The first row is the head; figures to the right. */
export function table(rows: readonly (readonly string[])[], labelWidth: number): string {
  const [head, ...body] = rows.map(
    ([label, ...cells]) =>
      `  ${label!.padEnd(labelWidth)}${cells.map((cell) => cell.padStart(16)).join('')}`,
  );
  return ['', head, `  ${'-'.repeat(head!.length - 2)}`, ...body, ''].join('\n');
}
