// Prints a table: columns as wide as their content, numbers to the right.

/** The first row is the head. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  for (const [index, row] of rows.entries()) {
    const cells = row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!),
    );
    console.log(`  ${cells.join('   ')}`.trimEnd());
    if (index === 0) console.log(`  ${widths.map((width) => '-'.repeat(width)).join('   ')}`);
  }
}
