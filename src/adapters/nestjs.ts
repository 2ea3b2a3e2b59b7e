// holdfast/nestjs: a module that makes and closes clients, a decorator that runs a method under a lock, and a health indicator.

import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import {
  type BeforeApplicationShutdown,
  type DynamicModule,
  type FactoryProvider,
  Inject,
  type InjectionToken,
  type ModuleMetadata,
  type OnApplicationShutdown,
  StreamableFile,
} from '@nestjs/common';
import { ModuleRef, ModulesContainer } from '@nestjs/core';
import {
  type AcquireOptions,
  ClosedError,
  type Hold,
  Holdfast,
  type HoldfastOptions,
  LockTimeoutError,
  OptionError,
  type PingOptions,
  UnavailableError,
} from '../index.js';
import {
  invalid,
  ONE_ATTEMPT,
  parseDuration,
  parseOptions,
  parseRequest,
  shown,
} from '../api/options.js';

/**
 * What `HoldfastModule` needs besides the options of its client.
 *
 * @group NestJS
 */
export interface HoldfastModuleSettings {
  /** The name of the client, for apps that have several. Default: none, the client that is injected as `Holdfast`. */
  name?: string | undefined;
  /** Whether all modules of the app may inject the client, and use `@Lock`, without an import of this module. Default: true. */
  global?: boolean | undefined;
  /**
   * When the app closes: how long the client waits for methods under `@Lock` that still run, in milliseconds. Then it closes, and their
   * locks are lost. Default: 10,000; 0 to 2^31-1.
   */
  drainTimeout?: number | undefined;
}

/**
 * Options of `HoldfastModule.forRoot()`: those of `new Holdfast()`, and those of the module.
 *
 * @group NestJS
 */
export type HoldfastModuleOptions = HoldfastOptions & HoldfastModuleSettings;

/**
 * Options of `HoldfastModule.forRootAsync()`.
 *
 * @group NestJS
 */
export interface HoldfastModuleAsyncOptions
  extends HoldfastModuleSettings, Pick<ModuleMetadata, 'imports'> {
  /** What Nest gives to `useFactory`. */
  inject?: FactoryProvider['inject'];
  /** Makes the options of `new Holdfast()`. */
  useFactory: FactoryProvider<HoldfastOptions>['useFactory'];
}

/**
 * Makes a client, and closes it when the app closes: after the HTTP servers, the queue workers and the schedules, and after the methods
 * under `@Lock` that still run. It is global by default.
 *
 * @example
 * ```ts
 * @Module({ imports: [HoldfastModule.forRoot({ redis: 'redis://localhost:6379', wait: 5_000 })] })
 * export class AppModule {}
 * ```
 *
 * @group NestJS
 */
// eslint-disable-next-line @typescript-eslint/no-extraneous-class -- Nest's modules are classes
export class HoldfastModule {
  /**
   * A module with one client. An app that needs several imports it several times, each with a `name`.
   *
   * @throws OptionError an option is unknown, or not usable; most are read when the app starts
   */
  static forRoot(options: HoldfastModuleOptions): DynamicModule {
    const { name, global, drainTimeout, ...given } = options;
    return HoldfastModule.forRootAsync({ name, global, drainTimeout, useFactory: () => given });
  }

  /**
   * The same with options that are known only when the app starts, such as those of a `ConfigService`.
   *
   * @throws OptionError an option is not usable; those of the client are read when the app starts
   */
  static forRootAsync(options: HoldfastModuleAsyncOptions): DynamicModule {
    const { name, global = true, drainTimeout = 10_000, imports = [], inject = [] } = options;
    const token = getHoldfastToken(name);
    parseDuration(drainTimeout, 'drainTimeout', 0);
    return {
      module: HoldfastModule,
      global,
      imports,
      providers: [
        {
          provide: token,
          inject,
          useFactory: async (...injected: unknown[]) =>
            new Holdfast(await options.useFactory(...injected)),
        },
        {
          provide: methodsOf(name),
          inject: [token, ModulesContainer],
          useFactory: (client: Holdfast, modules: ModulesContainer) => {
            closeLast(modules);
            return new LockedMethods(client, drainTimeout);
          },
        },
        {
          provide: HoldfastHealthIndicator,
          inject: [ModuleRef],
          useFactory: (modules: ModuleRef) => new HoldfastHealthIndicator(modules),
        },
      ],
      exports: [token, methodsOf(name), HoldfastHealthIndicator],
    };
  }
}

/** Nest shuts modules down by their distance, those of all global ones being equal: the workers of a queue could be closed after the client. */
function closeLast(modules: ModulesContainer): void {
  for (const module of modules.values())
    if (module.metatype === HoldfastModule) module.distance = Infinity;
}

/**
 * The token of a client: the class `Holdfast`, or that of a name. For `overrideProvider()` in tests, and for `inject` of factories.
 *
 * @group NestJS
 */
export function getHoldfastToken(name?: string): InjectionToken<Holdfast> {
  if (name === undefined) return Holdfast;
  if (typeof name === 'string' && name !== '') return `holdfast:${name}`;
  throw invalid('the name of a client', name, 'a string of at least one character');
}

/**
 * Injects a client: `@InjectHoldfast('reports') readonly reports: Holdfast`. Without a name it is the same as `@Inject(Holdfast)`.
 *
 * @group NestJS
 */
export function InjectHoldfast(name?: string): PropertyDecorator & ParameterDecorator {
  return Inject(getHoldfastToken(name));
}

/**
 * Options of `@Lock`: those of an acquisition, and these.
 *
 * @group NestJS
 */
export type LockDecoratorOptions = AcquireOptions & {
  /** The name of the client. Default: none, the client without a name. */
  client?: string | undefined;
  /** Whether it is a fair lock: first come, first served. Default: false. */
  fair?: boolean | undefined;
  /**
   * What a call comes to that did not get the lock within `wait`: `throw` throws the {@link LockTimeoutError}, `skip` resolves to undefined,
   * a function is called with that error and the arguments of the call, and its value is the result. Default: `throw`. With anything else,
   * `wait` is 0 by default.
   */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the arguments are those of any method
  onBusy?: 'throw' | 'skip' | ((error: LockTimeoutError, args: any[]) => unknown) | undefined;
};

/**
 * Runs the method under the lock of this name, as `withLock` does. Calls inside it that take the same lock, also through other methods
 * under `@Lock`, re-enter it. It may stand above or below `@Cron`, `@Get`, `@UseGuards` and the like. Nest must have made the instance.
 *
 * @param name - text in which `{0}` stands for the first argument, `{1.id}` for a property of the second, and `{id}` is short for
 *   `{0.id}`; a doubled brace is a literal one. Or a function that makes the name of the arguments
 * @throws OptionError the name or an option is not usable; thrown by a call: the name has a value that is missing or no text, the instance
 *   has no client, or the method resolved to an Observable or a StreamableFile, whose work would begin when the lock is released
 * @example
 * ```ts
 * @Lock('orders:{id}', { wait: 2_000 })
 * async ship(order: Order): Promise<void> {}
 * ```
 *
 * @group NestJS
 */
export function Lock(
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- the arguments are those of any method
  name: string | ((...args: any[]) => string),
  options: LockDecoratorOptions = {},
): (
  target: object,
  property: string | symbol,
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- any method that is asynchronous
  descriptor: TypedPropertyDescriptor<(...args: any[]) => Promise<any>>,
) => void {
  return (target, property, descriptor) => {
    const label = `${target.constructor.name}.${String(property)}`;
    const method = (descriptor as typeof descriptor | undefined)?.value;
    if (typeof target === 'function' || typeof method !== 'function')
      throw new OptionError(
        `@Lock must stand on a method of instances, compiled with "experimentalDecorators": ${String(property)} is none`,
      );
    if (typeof name !== 'function' && (typeof name !== 'string' || name === ''))
      throw invalid(
        `@Lock of ${label}: the name`,
        name,
        'a string of at least one character, or a function',
      );
    const what = `the options of @Lock of ${label}`;
    const {
      client,
      fair = false,
      onBusy = 'throw',
      ...others
    } = parseOptions(what, options, KNOWN_OPTIONS) as LockDecoratorOptions;
    if (typeof fair !== 'boolean') throw invalid(`@Lock of ${label}: fair`, fair, 'true or false');
    if (onBusy !== 'throw' && onBusy !== 'skip' && typeof onBusy !== 'function')
      throw invalid(`@Lock of ${label}: onBusy`, onBusy, "'throw', 'skip' or a function");
    const settings: MethodSettings = {
      nameOf: typeof name === 'string' ? parseTemplate(name, label) : name,
      isFair: fair,
      onBusy,
      acquire: {
        ...others,
        wait: others.wait ?? (onBusy === 'throw' ? undefined : 0),
        label: others.label ?? label,
      },
    };
    // Only to throw now, and not at the first call.
    parseRequest(typeof name === 'string' ? name : label, settings.acquire, ONE_ATTEMPT);
    const slot = methodsOf(client);
    // Nest then sets it in every instance that it makes: each has the client of its own app.
    Inject(slot)(target, slot);
    const locked = async function (this: Record<symbol, LockedMethods>, ...args: unknown[]) {
      const methods = this[slot] ?? noMethods(label);
      return await methods.call(settings, args, () => method.apply(this, args));
    };
    // What other decorators have stored so far; those that come later find the new function. (Its name and length are among the properties.)
    Object.defineProperties(locked, Object.getOwnPropertyDescriptors(method));
    for (const key of Reflect.getOwnMetadataKeys(method) as unknown[])
      Reflect.defineMetadata(key, Reflect.getOwnMetadata(key, method), locked);
    descriptor.value = locked;
  };
}

/**
 * The hold of the innermost method under `@Lock` around the caller, for its `assertHeld()`, `signal`, `remaining()` or `extend()`;
 * undefined: there is none.
 *
 * @group NestJS
 */
export function currentHold(): Hold | undefined {
  return holds.getStore();
}

const KNOWN_OPTIONS = [
  'wait',
  'lease',
  'lockAtLeastFor',
  'signal',
  'label',
  'client',
  'fair',
  'onBusy',
] as const;

const holds = new AsyncLocalStorage<Hold>();

/** Both the token of a client's {@link LockedMethods} and their property; Nest's error shows it if the module is missing. */
function methodsOf(client: string | undefined): symbol {
  const name = getHoldfastToken(client) === Holdfast ? '' : `name: '${client ?? ''}', `;
  return Symbol.for(`@Lock, which needs HoldfastModule.forRoot({ ${name}… })`);
}

function noMethods(label: string): never {
  throw new OptionError(
    `${label}() is under @Lock, and its instance has no client: Nest must make it from its class, not a factory, a value or new`,
  );
}

/** What `@Lock` was given, checked. */
interface MethodSettings {
  readonly nameOf: (...args: unknown[]) => string;
  readonly isFair: boolean;
  readonly onBusy: NonNullable<LockDecoratorOptions['onBusy']>;
  readonly acquire: AcquireOptions;
}

/** Runs the methods under the locks of one client, and closes it after them. */
class LockedMethods implements BeforeApplicationShutdown, OnApplicationShutdown {
  readonly #client: Holdfast;
  readonly #drainTimeoutMs: number;
  /** Ends of the calls that have their lock, or make their only attempt: others may wait for longer than an app may take to close. */
  readonly #running = new Set<Promise<void>>();
  /** Aborts when the methods have had their time; undefined: the app is not closing. */
  #limit: AbortSignal | undefined;

  constructor(client: Holdfast, drainTimeoutMs: number) {
    this.#client = client;
    this.#drainTimeoutMs = drainTimeoutMs;
  }

  async call(settings: MethodSettings, args: unknown[], method: () => unknown): Promise<unknown> {
    const { nameOf, isFair, onBusy, acquire } = settings;
    const name = nameOf(...args);
    const lock = isFair ? this.#client.getFairLock(name) : this.#client.getLock(name);
    const progress = { hasBegun: false };
    let leave = acquire.wait === 0 ? this.#enter() : undefined;
    try {
      return await lock.withLock(acquire, async (hold) => {
        progress.hasBegun = true;
        leave ??= this.#enter();
        const result = await holds.run(hold, method);
        // Nest reads its stream only later, which `withLock` refuses, as any stream.
        return result instanceof StreamableFile ? result.getStream() : result;
      });
    } catch (error) {
      if (progress.hasBegun || onBusy === 'throw' || !(error instanceof LockTimeoutError))
        throw error;
      return onBusy === 'skip' ? undefined : onBusy(error, args);
    } finally {
      leave?.();
    }
  }

  /** Counts a call until the returned function is called. */
  #enter(): () => void {
    let end!: () => void;
    const ended = new Promise<void>((resolve) => (end = resolve));
    this.#running.add(ended);
    return () => {
      this.#running.delete(ended);
      end();
    };
  }

  /** The schedules have stopped, and nothing that their runs need. */
  async beforeApplicationShutdown(): Promise<void> {
    await this.#drain();
  }

  /** Whatever brings work has stopped. */
  async onApplicationShutdown(): Promise<void> {
    await this.#drain();
    await this.#client.close();
  }

  async #drain(): Promise<void> {
    const limit = (this.#limit ??= AbortSignal.timeout(this.#drainTimeoutMs));
    if (this.#running.size === 0 || limit.aborted) return;
    await Promise.race([Promise.all(this.#running), once(limit, 'abort')]);
  }
}

/**
 * A health indicator for `@nestjs/terminus`: `() => health.isHealthy('redis')` in `HealthCheckService.check()`.
 *
 * @group NestJS
 */
export class HoldfastHealthIndicator {
  readonly #modules: ModuleRef;

  /** Made by `HoldfastModule`. @internal */
  constructor(modules: ModuleRef) {
    this.#modules = modules;
  }

  /**
   * Whether Redis answers the client's `ping()`.
   *
   * @param key - under which the result is shown
   * @param options - those of `ping()`, and the name of the `client`; without a `timeout` it may take `commandTimeout`, 10 s by default
   * @throws OptionError `timeout` is not usable
   */
  async isHealthy<Key extends string>(
    key: Key,
    { client, ...options }: PingOptions & { client?: string | undefined } = {},
  ): Promise<HoldfastHealth<Key>> {
    const holdfast = this.#modules.get<Holdfast>(getHoldfastToken(client), { strict: false });
    try {
      const responseTime = Math.round(await holdfast.ping(options));
      return { [key]: { status: 'up', responseTime } } as HoldfastHealth<Key>;
    } catch (error) {
      if (!(error instanceof UnavailableError || error instanceof ClosedError)) throw error;
      return { [key]: { status: 'down', message: error.message } } as HoldfastHealth<Key>;
    }
  }
}

/**
 * What `isHealthy()` found, in the form of `@nestjs/terminus`.
 *
 * @group NestJS
 */
export type HoldfastHealth<Key extends string = string> = Record<
  Key,
  | {
      /** Redis answers. */
      status: 'up';
      /** After how many milliseconds. */
      responseTime: number;
    }
  | {
      /** Redis does not answer, or the client is closed. */
      status: 'down';
      /** Why. */
      message: string;
    }
>;

/** Makes names of arguments by a template. */
function parseTemplate(template: string, label: string): (...args: unknown[]) => string {
  const where = `@Lock of ${label}: the name ${shown(template)}`;
  // Every second part is a brace or a placeholder.
  const parts = template.split(/(\{\{|\}\}|\{[^{}]*\}|[{}])/).map((text, i) => {
    if (i % 2 === 0) return text;
    if (text === '{{' || text === '}}') return text[0];
    const path = /^\{([^{}.\s]+(?:\.[^{}.\s]+)*)\}$/.exec(text)?.[1]?.split('.');
    if (!path)
      throw new OptionError(
        `${where} has ${shown(text)}: a placeholder is {0}, {0.id} or {id}, and a literal brace is {{ or }}`,
      );
    if (!/^\d+$/.test(path[0] ?? '')) path.unshift('0');
    return (args: unknown[]) => {
      const value = path.reduce<unknown>(
        (from, key) => (from as Record<string, unknown> | undefined)?.[key],
        args,
      );
      if (isText(value)) return String(value);
      throw new OptionError(
        `${where}: ${text} is ${shown(value)}: it must be a string of at least one character, a finite number, a bigint or a boolean`,
      );
    };
  });
  return (...args) =>
    parts.map((part) => (typeof part === 'function' ? part(args) : part)).join('');
}

function isText(value: unknown): value is string | number | bigint | boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  return (typeof value === 'string' && value !== '') || /^(bigint|boolean)$/.test(typeof value);
}
