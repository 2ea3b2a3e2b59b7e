// One shipment at a time for each order, and a report that one of many processes writes each night.
import { Controller, Injectable, Param, ParseIntPipe, Post } from '@nestjs/common';
import { Cron } from '@nestjs/schedule';
import { currentHold, Lock } from '../../src/adapters/nestjs.js';

@Controller('orders')
export class Orders {
  shippedCount = 0;

  @Post(':id/shipment')
  @Lock('orders:{0}', { wait: 2_000 })
  async ship(@Param('id', ParseIntPipe) id: number): Promise<object> {
    // Nobody else, in any process, ships this order now.
    const label = await this.print(id);
    currentHold()?.assertHeld(); // right before a decisive step
    return { label, count: ++this.shippedCount };
  }

  @Lock('orders:{0}') // called by ship(), it re-enters the lock
  async print(id: number): Promise<string> {
    return await Promise.resolve(`order ${id}`);
  }
}

@Injectable()
export class Reports {
  writtenCount = 0;

  @Cron('0 3 * * *', { name: 'nightly' })
  @Lock('reports:nightly', { onBusy: 'skip', lockAtLeastFor: 60_000 })
  async write(): Promise<void> {
    this.writtenCount++;
    await fetch('https://reports.example/nightly', { signal: currentHold()?.signal ?? null });
  }
}
