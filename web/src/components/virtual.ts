import { elementScroll, observeElementOffset, observeElementRect, Virtualizer, type VirtualItem } from '@tanstack/virtual-core';
import { useLayoutEffect, useReducer, useState } from 'preact/hooks';

export type List = Virtualizer<HTMLElement, HTMLElement>;

/** A virtual list: only the rows in view, and a few around them, are in the DOM. */
export function useVirtual(options: {
  count: number;
  /** The estimated height of a row. The better the estimate, the less the list moves while rows are measured. */
  estimate: number | ((index: number) => number);
  scroller: { current: HTMLElement | null };
  keyOf?: (index: number) => string | number;
  onScroll?: () => void;
}): { list: List; items: VirtualItem[]; height: number } {
  const [, redraw] = useReducer((n: number, _: void) => n + 1, 0);
  const settings = {
    count: options.count,
    getScrollElement: () => options.scroller.current,
    estimateSize: typeof options.estimate === 'number' ? () => options.estimate as number : options.estimate,
    ...(options.keyOf ? { getItemKey: options.keyOf } : {}),
    overscan: 8,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    initialRect: { width: 600, height: 600 },
    onChange: () => {
      redraw();
      options.onScroll?.();
    },
  };
  const [list] = useState(() => new Virtualizer<HTMLElement, HTMLElement>(settings));
  list.setOptions(settings);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());
  return { list, items: list.getVirtualItems(), height: list.getTotalSize() };
}
