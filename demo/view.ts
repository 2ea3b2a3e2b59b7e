// Shows a part of a show while it runs: in place in a terminal, else as plain lines.

export interface View<Plan, State> {
  begin(plan: Plan): void;
  update(state: State): void;
  /** Something that happens once. */
  tell(event: string): void;
  end(state: State): void;
  /** Leaves the terminal as it was, whatever happened. */
  close(): void;
}
