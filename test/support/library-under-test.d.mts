export function substituteFor(specifier: string, importer?: string): string | undefined;
