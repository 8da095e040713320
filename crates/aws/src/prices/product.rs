//! The documents of the price list: one product with its terms each.

use fleetwright_core::model::Price;
use serde_json::Value;

/// The instance type and hourly on-demand price of a product; `None` if it has no price or is not an instance type.
#[must_use]
pub fn product(document: &str) -> Option<(String, Price)> {
    let product: Value = serde_json::from_str(document).ok()?;
    let name = product.pointer("/product/attributes/instanceType")?.as_str()?;
    let terms = product.pointer("/terms/OnDemand")?.as_object()?;
    let dimensions = terms.values().filter_map(|term| term.get("priceDimensions")?.as_object());
    // China's partition is billed in its own currency.
    let amount = |dimension: &Value| {
        let per_unit = dimension.get("pricePerUnit")?;
        let text = per_unit.get("USD").or_else(|| per_unit.get("CNY"))?.as_str()?;
        Price::from_dollars(text.parse().ok()?).ok()
    };
    let mut prices = dimensions.flat_map(|dimensions| dimensions.values().filter_map(amount));
    Some((name.to_owned(), prices.find(|price| *price > Price::ZERO)?))
}

#[cfg(test)]
mod tests {
    //! Documents with and without a price.
    use super::*;

    fn document(currency: &str, amount: &str) -> String {
        let dimension = serde_json::json!({ "pricePerUnit": { currency: amount } });
        serde_json::json!({
            "product": { "attributes": { "instanceType": "m5.large" } },
            "terms": { "OnDemand": { "A": { "priceDimensions": { "B": dimension } } } },
        })
        .to_string()
    }

    #[test]
    fn only_prices_above_zero_are_used() {
        for (currency, amount, nanos) in [
            ("USD", "0.0960000000", Some(96_000_000)),
            ("CNY", "0.7", Some(700_000_000)),
            ("EUR", "0.1", None),
            ("USD", "0.0000000000", None),
            ("USD", "-1", None),
            ("USD", "a lot", None),
        ] {
            let found = product(&document(currency, amount));
            assert_eq!(found.map(|(_, price)| price.nanos()), nanos, "{currency} {amount}");
        }
        // Of several dimensions, one that costs nothing does not count.
        let mut several: Value = serde_json::from_str(&document("USD", "0.0000000000")).unwrap();
        several["terms"]["OnDemand"]["A"]["priceDimensions"]["C"] =
            serde_json::json!({ "pricePerUnit": { "USD": "0.5" } });
        assert_eq!(product(&several.to_string()).map(|(_, price)| price.nanos()), Some(500_000_000));
        assert_eq!(product("{}"), None);
        assert_eq!(product("no JSON"), None);
    }
}
