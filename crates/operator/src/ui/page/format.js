// Figures for people, as the tools write them: money, quantities, times. Documents have them exactly.

const HOURS_PER_MONTH = 730;

/** A decimal text or number as a number; null stays. */
const number = (exact) => (exact === null || exact === undefined || exact === "" ? null : Number(exact));

const fixed = (digits) => new Intl.NumberFormat("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const [whole, cents, fine] = [fixed(0), fixed(2), fixed(4)];

/** The sign of the currency that prices are in, or its code. */
const sign = () => page.data.currencySign;

/** An amount with its currency. */
function money(amount, text) {
  const [minus, mark] = [amount < 0 ? "−" : "", sign()];
  return `${minus}${mark}${mark.length > 1 ? " " : ""}${text}`;
}

/** A price per hour: four digits below ten, two above. */
function hourly(exact) {
  const price = number(exact);
  if (price === null || Number.isNaN(price)) return "–";
  return money(price, (Math.abs(price) < 10 ? fine : cents).format(Math.abs(price)));
}

/** What a price per hour costs in a month: whole numbers from a thousand on. */
function monthly(exact) {
  const price = number(exact);
  if (price === null || Number.isNaN(price)) return "–";
  const month = price * HOURS_PER_MONTH;
  return money(month, (Math.abs(month) < 1000 ? cents : whole).format(Math.abs(month)));
}

const count = (amount) => whole.format(amount);
const percent = (share) => `${Math.round(share * 100)}%`;
const counted = (amount, one, many = `${one}s`) => `${count(amount)} ${amount === 1 ? one : many}`;

/** An amount of a resource in the unit that Kubernetes writes. */
function quantity(resource, amount) {
  if (resource === "cpu") return `${Math.ceil(amount / 10) / 100}`;
  if (resource !== "memory" && resource !== "ephemeral-storage") return count(amount);
  const units = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
  let unit = 0;
  while (unit + 1 < units.length && Math.abs(amount) >= 1024) {
    amount /= 1024;
    unit += 1;
  }
  return `${Math.round(amount * 10) / 10}${units[unit]}`;
}

/** The time between two moments, as kubectl writes ages. */
function age(from, to) {
  const seconds = Math.max(0, Math.floor((Date.parse(to) - Date.parse(from)) / 1000));
  if (Number.isNaN(seconds)) return "–";
  const [minutes, hours, days] = [Math.floor(seconds / 60), Math.floor(seconds / 3600), Math.floor(seconds / 86400)];
  if (seconds < 120) return `${seconds}s`;
  if (hours < 2) return `${minutes}m`;
  if (days < 2) return `${hours}h`;
  return `${days}d`;
}

/** `12:04:05`, in UTC. */
const clock = (time) => (time ? String(time).slice(11, 19) : "–");
/** `2026-01-01 12:04:05 UTC`. */
const moment = (time) => (time ? `${String(time).slice(0, 10)} ${clock(time)} UTC` : "–");

/** The row of a resource. */
const resource = (rows, name) => (rows ?? []).find((row) => row.resource === name);
/** The requested share of a resource. */
const share = (row) => (row && row.allocatable > 0 ? row.used / row.allocatable : 0);
