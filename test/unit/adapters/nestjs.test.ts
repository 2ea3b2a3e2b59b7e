// holdfast/nestjs in apps on a server in memory: names of locks, options, clients, and tests without Redis.
import { Controller, Inject, Injectable, Module, Scope, StreamableFile } from '@nestjs/common';
import { Test, type TestingModule } from '@nestjs/testing';
import { Readable } from 'node:stream';
import { of } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import {
  currentHold,
  getHoldfastToken,
  HoldfastModule,
  type HoldfastModuleOptions,
  InjectHoldfast,
  Lock,
  type LockDecoratorOptions,
} from '../../../src/adapters/nestjs.js';
import { Holdfast, LockTimeoutError, OptionError, UnavailableError } from '../../../src/index.js';
import { MemoryRedis } from '../../../src/testing/memory-redis.js';

type Provider = new (...args: never[]) => object;

/** An app with one client on a server in memory. */
async function appWith(
  provider: Provider,
  options: Partial<HoldfastModuleOptions> = {},
): Promise<TestingModule> {
  const imports = [HoldfastModule.forRoot({ redis: new MemoryRedis(), ...options })];
  return await Test.createTestingModule({ imports, providers: [provider] }).compile();
}

/** A class whose one method is under a lock of this name, and returns the name. */
function named(name: Parameters<typeof Lock>[0], options?: LockDecoratorOptions): Named {
  @Injectable()
  class Orders {
    @Lock(name, options)
    ship(...args: unknown[]): Promise<string | undefined> {
      return Promise.resolve(args.length < 99 ? currentHold()?.lockName : '');
    }
  }
  return Orders;
}

type Named = new () => { ship(...args: unknown[]): Promise<string | undefined> };

async function nameFor(name: Parameters<typeof Lock>[0], ...args: unknown[]): Promise<unknown> {
  const Orders = named(name);
  const app = await appWith(Orders);
  try {
    return await app.get(Orders).ship(...args);
  } finally {
    await app.close();
  }
}

describe('the name of a lock', () => {
  it.each<[name: string, args: unknown[], is: string]>([
    ['orders', [], 'orders'],
    ['orders:{id}', [{ id: 7 }], 'orders:7'],
    ['orders:{0.id}', [{ id: 7n }], 'orders:7'],
    ['orders:{0}', ['a'], 'orders:a'],
    ['{1.user.name}:{0}', [false, { user: { name: 'eve' } }], 'eve:false'],
    ['{10}', 'abcdefghijk'.split(''), 'k'],
    ['{0.1}', [['a', 'b']], 'b'],
    ['{{{id}}}:{{}}', [{ id: 1 }], '{1}:{}'],
  ])('%s is made of the arguments', async (name, args, is) => {
    expect(await nameFor(name, ...args)).toBe(is);
  });

  it('may be made by a function', async () => {
    const name = (first: string, second: string): string => `${second}:${first}`;
    expect(await nameFor(name, 'a', 'b')).toBe('b:a');
  });

  it.each<[name: string, args: unknown[], message: RegExp]>([
    ['orders:{id}', [], /'orders:\{id\}': \{id\} is undefined: it must be a string/],
    ['orders:{id}', [{}], /\{id\} is undefined/],
    ['orders:{0.user.id}', [{ user: null }], /\{0\.user\.id\} is undefined/],
    ['orders:{0}', [null], /\{0\} is null/],
    ['orders:{0}', [{ secret: 1 }], /\{0\} is an object/],
    ['orders:{0}', [['a']], /\{0\} is an array of 1: it must be/],
    ['orders:{0}', [NaN], /\{0\} is NaN/],
    ['orders:{0}', [''], /\{0\} is ''/],
    ['orders:{0.constructor}', [{}], /\{0\.constructor\} is a function: it must be/],
  ])('%s is refused if a value is no text', async (name, args, message) => {
    const refused = nameFor(name, ...args);
    await expect(refused).rejects.toThrow(OptionError);
    await expect(nameFor(name, ...args)).rejects.toThrow(message);
  });

  it.each(['orders:{', 'orders:{}', 'orders:}', '{a..b}', '{ id }', '{.id}', '{{id}'])(
    '%s is refused before the app starts',
    (name) => {
      expect(() => named(name)).toThrow(/^@Lock of Orders\.ship: the name '.*' has '/);
    },
  );

  it.each(['', 5, undefined])('cannot be %o', (name) => {
    expect(() => named(name as string)).toThrow(
      /@Lock of Orders.ship: the name is .*: it must be a/,
    );
  });

  it('is refused if a function makes none', async () => {
    const refused = nameFor(() => undefined as unknown as string);
    await expect(refused).rejects.toThrow('lock name is undefined: it must be a string');
  });
});

describe('the options of @Lock', () => {
  it.each<[options: object, message: RegExp]>([
    [{ onBusy: 'ignore' }, /onBusy is 'ignore': it must be 'throw', 'skip' or a function/],
    [{ fair: 1 }, /fair is 1: it must be true or false/],
    [{ client: '' }, /the name of a client is '': it must be a string/],
    [{ waits: 1 }, /the options of @Lock of Orders.ship have no "waits"/],
    [{ wait: -1 }, /lock "a": wait is -1/],
    [{ lease: 0 }, /lock "a": lease is 0/],
  ])('%o are refused before the app starts', (options, message) => {
    expect(() => named('a', options)).toThrow(message);
  });

  it('cannot be those of a static method, or of a property', () => {
    const decorate = Lock('a') as (target: object, property: string, descriptor?: object) => void;
    expect(() => {
      decorate(Holdfast, 'm', { value: () => Promise.resolve() });
    }).toThrow('@Lock must stand on a method of instances');
    expect(() => {
      decorate({}, 'm');
    }).toThrow('@Lock must stand on a method of instances');
  });

  it('pass the label on, which is by default that of class and method', async () => {
    const labels: unknown[] = [];
    @Injectable()
    class Orders {
      @Inject(Holdfast) readonly holdfast!: Holdfast;

      @Lock('a')
      async one(): Promise<void> {
        await Promise.resolve(labels.push(this.holdfast.held()[0]?.label));
      }

      @Lock('a', { label: 'by hand', lease: 5_000, fair: true })
      async other(): Promise<void> {
        await Promise.resolve(labels.push(this.holdfast.held()[0]?.label));
      }
    }
    const app = await appWith(Orders);
    await app.get(Orders).one();
    await app.get(Orders).other();
    await app.close();
    expect(labels).toEqual(['Orders.one', 'by hand']);
  });
});

describe('a method under @Lock, when the lock is taken', () => {
  /** What a call comes to while another client holds the lock. */
  async function busy(options: LockDecoratorOptions): Promise<unknown> {
    const redis = new MemoryRedis();
    const Orders = named('orders:{0}', options);
    const app = await appWith(Orders, { redis });
    await using other = new Holdfast({ redis });
    await using hold = await other.getLock('orders:1').acquire();
    try {
      return await app.get(Orders).ship(hold.lockName.slice('orders:'.length));
    } finally {
      await app.close();
    }
  }

  it('throws by default, after its wait', async () => {
    await expect(busy({ wait: 1 })).rejects.toThrow(LockTimeoutError);
    await expect(busy({ wait: 1, onBusy: 'throw' })).rejects.toThrow(LockTimeoutError);
  });

  it('is skipped after one attempt, although the client waits for ever', async () => {
    expect(await busy({ onBusy: 'skip' })).toBeUndefined();
  });

  it('has the result of a function, which is called with the error and the arguments', async () => {
    const onBusy = (error: LockTimeoutError, args: unknown[]): unknown => [error.lockName, args];
    expect(await busy({ onBusy })).toEqual(['orders:1', ['1']]);
  });

  it('still makes its only attempt if the app closes meanwhile', async () => {
    const redis = new MemoryRedis();
    const Orders = named('a', { onBusy: 'skip' });
    const app = await appWith(Orders, { redis });
    redis.delay(20);
    const shipped = app.get(Orders).ship();
    await app.close();
    expect(await shipped).toBe('a');
  });

  it.each<[how: string, wait?: number]>([['skip'], ['a function', 3_000]])(
    'throws UnavailableError while Redis is down, and onBusy does not hide that: %s',
    async (how, wait) => {
      const redis = new MemoryRedis();
      const busy = vi.fn();
      const Orders = named('a', { onBusy: how === 'skip' ? how : busy, wait });
      const app = await appWith(Orders, { redis });
      await app.get(Holdfast).ping();
      app.get(Holdfast).on('error', () => undefined); // tells of the outage
      redis.down();
      const failed = expect(app.get(Orders).ship()).rejects.toThrow(UnavailableError);
      await redis.advance(20_000);
      await failed;
      expect(busy).not.toHaveBeenCalled();
      redis.up();
      await app.close();
    },
  );

  it.each([
    ['an Observable', of('a'), 'an Observable'],
    ['a StreamableFile', new StreamableFile(Buffer.from('a')), 'a stream'],
    ['a stream', Readable.from('a'), 'a stream'],
  ])(
    'throws if it resolves to %s, whose work would run without the lock',
    async (_, result, what) => {
      @Injectable()
      class Files {
        @Lock('a')
        async read(): Promise<unknown> {
          return await Promise.resolve(result);
        }
      }
      const app = await appWith(Files);
      await expect(app.get(Files).read()).rejects.toThrow(
        `lock "a" (Files.read): the function given to withLock() resolved to ${what}`,
      );
      if (result instanceof StreamableFile) expect(result.getStream().destroyed).toBe(true);
      await app.close();
    },
  );

  it('keeps the errors of its own, also such of another lock', async () => {
    const error = new LockTimeoutError('of another lock');
    @Injectable()
    class Orders {
      @Lock('a', { onBusy: 'skip' })
      ship(): Promise<void> {
        return Promise.reject(error);
      }
    }
    const app = await appWith(Orders);
    await expect(app.get(Orders).ship()).rejects.toBe(error);
    await app.close();
  });
});

describe('a method under @Lock', () => {
  it('re-enters the lock in other methods under it, and has the innermost hold', async () => {
    const names: unknown[] = [];
    const note = (): number => names.push(currentHold()?.lockName);
    @Injectable()
    class Inner {
      @Lock('a')
      async again(): Promise<void> {
        await Promise.resolve(note());
      }
    }
    @Injectable()
    class Outer {
      @Inject(Inner) readonly inner!: Inner;

      @Lock('a', { wait: 0 })
      async first(): Promise<void> {
        await this.second();
        await this.inner.again();
        note();
      }

      @Lock('b')
      async second(): Promise<void> {
        await this.inner.again();
        note();
      }
    }
    const imports = [HoldfastModule.forRoot({ redis: new MemoryRedis(), wait: 1_000 })];
    const app = await Test.createTestingModule({ imports, providers: [Inner, Outer] }).compile();
    await app.get(Outer).first();
    await app.close();
    expect(names).toEqual(['a', 'b', 'a', 'a']);
    expect(currentHold()).toBeUndefined();
  });

  it('keeps its name, its length, its properties and what decorators stored on both sides', () => {
    const mark =
      (key: string) =>
      (_target: object, _property: string, { value }: TypedPropertyDescriptor<Method>): void => {
        Reflect.defineMetadata(key, [key], value!);
      };
    const tag = (
      _target: object,
      _property: string,
      { value }: object & { value?: object },
    ): void => {
      Object.assign(value!, { tag: 'kept' });
    };
    type Method = (a: number, b: number) => Promise<number>;
    class Orders {
      @mark('after')
      @Lock('a')
      @mark('before')
      @tag
      ship(a: number, b: number): Promise<number> {
        return Promise.resolve(a + b);
      }
    }
    const ship = Object.getOwnPropertyDescriptor(Orders.prototype, 'ship')?.value as Method;
    expect([ship.name, ship.length]).toEqual(['ship', 2]);
    expect(ship).toHaveProperty('tag', 'kept');
    expect(Reflect.getOwnMetadataKeys(ship)).toEqual(['before', 'after']);
    expect(Reflect.getMetadata('before', ship)).toEqual(['before']);
  });

  it.each([Scope.DEFAULT, Scope.REQUEST, Scope.TRANSIENT])(
    'finds the client in a provider of scope %i, and in a class that inherits it',
    async (scope) => {
      @Injectable({ scope })
      class Base {
        @Lock('a')
        ship(): Promise<unknown> {
          return Promise.resolve(currentHold()?.lockName);
        }
      }
      @Injectable({ scope })
      class Derived extends Base {
        @Lock('b')
        pack(): Promise<unknown> {
          return this.ship();
        }
      }
      const app = await appWith(Derived);
      const derived = await app.resolve(Derived).catch(() => app.get(Derived));
      expect(await derived.pack()).toBe('a');
      await app.close();
    },
  );

  it('finds the client of its own app', async () => {
    @Controller()
    class Orders {
      @Inject(Holdfast) readonly holdfast!: Holdfast;

      @Lock('a')
      ship(): Promise<boolean> {
        return Promise.resolve(this.holdfast.held()[0]?.lockName === 'a');
      }
    }
    const [one, other] = [await appWith(Orders), await appWith(Orders)];
    const [first, second] = [one.get(Orders), other.get(Orders)];
    expect(first.holdfast).not.toBe(second.holdfast);
    expect(await Promise.all([first.ship(), second.ship()])).toEqual([true, true]);
    await one.close();
    expect(await second.ship()).toBe(true);
    await expect(first.ship()).rejects.toThrow('closed');
    await other.close();
  });

  it('tells which module is missing', async () => {
    const providers = [named('a', { client: 'reports' })];
    const imports = [HoldfastModule.forRoot({ redis: new MemoryRedis() })];
    const compiled = Test.createTestingModule({ imports, providers }).compile();
    await expect(compiled).rejects.toThrow(
      "@Lock, which needs HoldfastModule.forRoot({ name: 'reports', … })",
    );
  });

  it('tells that its instance has no client if Nest did not make it', async () => {
    const Orders = named('a');
    await expect(new Orders().ship()).rejects.toThrow(
      'Orders.ship() is under @Lock, and its instance has no client',
    );
    const app = await appWith({ provide: Orders, useFactory: () => new Orders() } as never);
    await expect(app.get(Orders).ship()).rejects.toThrow(OptionError);
    await app.close();
  });
});

describe('HoldfastModule', () => {
  it('makes several clients, each with a name', async () => {
    @Injectable()
    class Reports {
      @InjectHoldfast('reports') readonly reports!: Holdfast;
      @InjectHoldfast() readonly holdfast!: Holdfast;

      @Lock('a', { client: 'reports' })
      async write(): Promise<number[]> {
        return await Promise.resolve([this.holdfast, this.reports].map((c) => c.held().length));
      }
    }
    @Module({ providers: [Reports] })
    class ReportsModule {}
    const redis = new MemoryRedis();
    const app = await Test.createTestingModule({
      imports: [
        HoldfastModule.forRoot({ redis, clientId: 'first' }),
        HoldfastModule.forRootAsync({
          name: 'reports',
          imports: [IdModule],
          inject: ['id'],
          useFactory: (clientId: string) => Promise.resolve({ redis, clientId }),
        }),
        ReportsModule,
      ],
    }).compile();
    expect(app.get<Holdfast>(getHoldfastToken('reports')).clientId).toMatch(/^second/);
    expect(app.get(Holdfast).clientId).toMatch(/^first/);
    expect(await app.get(Reports).write()).toEqual([0, 1]);
    await app.close();
  });

  @Module({ providers: [{ provide: 'id', useValue: 'second' }], exports: ['id'] })
  class IdModule {}

  it('is for those that import it only, if it is not global', async () => {
    const Orders = named('a');
    const locks = HoldfastModule.forRoot({ redis: new MemoryRedis(), global: false });
    @Module({ providers: [Orders] })
    class OrdersModule {}
    const without = Test.createTestingModule({ imports: [locks, OrdersModule] }).compile();
    await expect(without).rejects.toThrow('needs HoldfastModule.forRoot');
    const app = await Test.createTestingModule({ imports: [locks], providers: [Orders] }).compile();
    expect(await app.get(Orders).ship()).toBe('a');
    await app.close();
  });

  it.each<[options: object, message: RegExp]>([
    [{ name: '' }, /the name of a client is ''/],
    [{ drainTimeout: 1.5 }, /drainTimeout is 1.5: it must be a whole number/],
  ])('refuses %o', (options, message) => {
    expect(() => HoldfastModule.forRoot({ redis: new MemoryRedis(), ...options })).toThrow(message);
  });

  it('refuses options that the client does not know when the app starts', async () => {
    const app = appWith(named('a'), { waits: 1 } as object);
    await expect(app).rejects.toThrow('have no "waits"');
  });

  it('can be given a server in memory by a test, in place of the real one', async () => {
    const Orders = named('a');
    const app = await Test.createTestingModule({
      imports: [HoldfastModule.forRoot({ redis: 'redis://nowhere.invalid:6379' })],
      providers: [Orders],
    })
      .overrideProvider(Holdfast)
      .useFactory({ factory: () => new Holdfast({ redis: new MemoryRedis() }) })
      .compile();
    expect(await app.get(Orders).ship()).toBe('a');
    const client = app.get(Holdfast);
    await app.close();
    expect(client.status).toBe('closed');
  });
});
