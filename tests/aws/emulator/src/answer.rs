//! Answers that the proxy gives in moto's place: errors in the form of each protocol, and calls that moto has not.

use http::HeaderMap;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::call::Call;
use super::xml::Element;

/// An answer on its way to the caller.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers that matter to the SDK.
    pub headers: HeaderMap,
    /// The body.
    pub body: String,
    /// Whether the connection breaks in the place of an answer.
    pub lost: bool,
}

impl Answer {
    /// XML with status 200.
    #[must_use]
    pub fn xml(root: &Element) -> Self {
        Self { status: 200, body: root.document(), ..Self::default() }.typed("text/xml;charset=UTF-8")
    }

    /// JSON with status 200.
    #[must_use]
    pub fn json(value: &Value) -> Self {
        Self { status: 200, body: value.to_string(), ..Self::default() }.typed("application/json")
    }

    fn typed(mut self, content_type: &'static str) -> Self {
        self.headers.insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(content_type));
        self
    }

    /// A refusal, in the words of the service that was called.
    #[must_use]
    pub fn refusal(call: &Call, refusal: &Refusal) -> Self {
        let Refusal { status, code, message } = refusal;
        let text = Element::text;
        let answer = match call.service.as_str() {
            "ec2" => {
                let error = Element::of("Error", vec![text("Code", code), text("Message", message)]);
                let root = vec![Element::of("Errors", vec![error]), text("RequestID", "proxy")];
                Self::xml(&Element::of("Response", root))
            }
            "iam" => {
                let error = vec![text("Type", "Sender"), text("Code", code), text("Message", message)];
                let root = vec![Element::of("Error", error), text("RequestId", "proxy")];
                Self::xml(&Element::of("ErrorResponse", root))
            }
            _ => Self::json(&json!({"__type": code, "message": message})),
        };
        let mut answer = Self { status: *status, ..answer };
        if let Ok(code) = code.parse() {
            answer.headers.insert("x-amzn-errortype", code);
        }
        answer
    }
}

/// What is said to whom is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// The code.
    pub code: String,
    /// The message.
    pub message: String,
}

impl Refusal {
    /// A refusal.
    #[must_use]
    pub fn new(status: u16, code: &str, message: &str) -> Self {
        Self { status, code: code.to_owned(), message: message.to_owned() }
    }

    /// Throttling, in the format of each service. "RequestLimitExceeded: The maximum request rate permitted by the Amazon EC2 APIs has been exceeded
    /// for your account." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>, in words as in
    /// aws/karpenter-provider-aws#8936); the others as in the common errors of each service, such as "ThrottlingException: The request was denied due
    /// to request throttling." (<https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html>)
    #[must_use]
    pub fn throttled(call: &Call) -> Self {
        match call.service.as_str() {
            "ec2" => Self::new(503, "RequestLimitExceeded", "Request limit exceeded."),
            "iam" => Self::new(400, "Throttling", "Rate exceeded"),
            _ => Self::new(400, "ThrottlingException", "Rate exceeded"),
        }
    }

    /// A missing permission without a policy, in the format of each service; with one see [`crate::iam::refusal`]. "UnauthorizedOperation: You are not
    /// authorized to perform this operation." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>)
    #[must_use]
    pub fn denied(call: &Call) -> Self {
        let message = format!("You are not authorized to perform {}:{}.", call.service, call.action);
        match call.service.as_str() {
            "ec2" => Self::new(403, "UnauthorizedOperation", &message),
            "iam" => Self::new(403, "AccessDenied", &message),
            _ => Self::new(400, "AccessDeniedException", &message),
        }
    }

    /// An expired token, in the format of each service: of EC2 as in aws/aws-sdk-java#1443, of others "ExpiredTokenException: The security token included
    /// in the request is expired" (<https://docs.aws.amazon.com/IAM/latest/APIReference/CommonErrors.html>).
    #[must_use]
    pub fn expired(call: &Call) -> Self {
        match call.service.as_str() {
            "ec2" => Self::new(400, "RequestExpired", "Request has expired."),
            "iam" | "sqs" => Self::new(403, "ExpiredToken", "The security token has expired"),
            _ => Self::new(400, "ExpiredTokenException", "The security token has expired"),
        }
    }
}

/// An answer of moto in the words of IAM: "NoSuchEntity: The role with name […] cannot be found." (hashicorp/terraform-provider-aws#6079)
#[must_use]
pub fn reworded(call: &Call, answer: Answer) -> Answer {
    let role = call.param("RoleName");
    let is_of_role = answer.body.contains(&format!("Role {role} "));
    if call.action != "AddRoleToInstanceProfile" || answer.status != 404 || !is_of_role {
        return answer;
    }
    let message = format!("The role with name {role} cannot be found.");
    Answer::refusal(call, &Refusal::new(404, "NoSuchEntity", &message))
}

/// `DescribeX` of what moto has not.
#[must_use]
pub fn described(action: &str, set: &str, items: Vec<Element>) -> Answer {
    let children = vec![Element::text("requestId", "proxy"), Element::of(set, items)];
    let tag = format!("{action}Response xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\"");
    Answer::xml(&Element::of(&tag, children))
}

/// `ssm:GetParameter`.
#[must_use]
pub fn parameter(name: &str, value: &str) -> Answer {
    Answer::json(&json!({"Parameter": {"Name": name, "Type": "String", "Value": value, "Version": 1}}))
}

/// `pricing:GetProducts`: prices of shared instances in dollars per hour, in pages.
#[must_use]
pub fn products(call: &Call, prices: &[(String, String)], page: usize) -> Answer {
    let filters = call.json["Filters"].as_array().cloned().unwrap_or_default();
    let shared = filters.iter().any(|filter| filter["Field"] == "tenancy" && filter["Value"] == "Shared");
    let from = call.json["NextToken"].as_str().and_then(|token| token.parse().ok()).unwrap_or(0_usize);
    let all = if shared { prices } else { &[] };
    let product = |(name, dollars): &(String, String)| {
        json!({
            "product": {"attributes": {"instanceType": name}},
            "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"pricePerUnit": {"USD": dollars}}}}}},
        })
        .to_string()
    };
    let list: Vec<String> = all.iter().skip(from).take(page).map(product).collect();
    let mut answer = json!({"FormatVersion": "aws_v1", "PriceList": list});
    if from + page < all.len() {
        answer["NextToken"] = json!((from + page).to_string());
    }
    Answer::json(&answer)
}

/// `arc-zonal-shift:GetManagedResource`: the zones that traffic is shifted away from, by people and by AWS itself.
#[must_use]
pub fn managed_resource(zones: &[String], autoshifted: &[String]) -> Answer {
    let shift = |zone: &String| {
        json!({
            "appliedStatus": "APPLIED", "awayFrom": zone, "comment": "", "startTime": 1_700_000_000,
            "expiryTime": 4_000_000_000_u32, "resourceIdentifier": "cluster", "zonalShiftId": zone,
        })
    };
    let shifts: Vec<Value> = zones.iter().map(shift).collect();
    let autoshift =
        |zone: &String| json!({"appliedStatus": "APPLIED", "awayFrom": zone, "startTime": 1_700_000_000});
    let autoshifts: Vec<Value> = autoshifted.iter().map(autoshift).collect();
    Answer::json(&json!({"appliedWeights": {}, "zonalShifts": shifts, "autoshifts": autoshifts}))
}

/// Calls `change` with each instance of an answer of `DescribeInstances`.
pub(crate) fn each_instance(root: &mut Element, mut change: impl FnMut(&mut Element)) {
    let sets = root.children.iter_mut().filter(|child| child.name() == "reservationSet");
    let reservations = sets.flat_map(|set| set.children.iter_mut()).flat_map(|item| item.children.iter_mut());
    let instances = reservations.filter(|child| child.name() == "instancesSet");
    for instance in instances.flat_map(|set| set.children.iter_mut()) {
        change(instance);
    }
}

/// Sets back the launch times of instances.
pub(crate) fn age(root: &mut Element, by: SignedDuration) {
    each_instance(root, |instance| {
        for time in instance.children.iter_mut().filter(|child| child.name() == "launchTime") {
            if let Ok(launched) = time.text.parse::<Timestamp>() {
                time.text = (launched - by).to_string();
            }
        }
    });
}

/// Tells the security groups of instances by those of their interfaces.
pub(crate) fn add_groups(root: &mut Element) {
    each_instance(root, |instance| {
        let interfaces = instance.child("networkInterfaceSet").map(|set| set.children.as_slice());
        let groups =
            interfaces.unwrap_or_default().iter().find_map(|interface| interface.child("groupSet")).cloned();
        let own = instance.children.iter_mut().find(|child| child.name() == "groupSet");
        if let (Some(own), Some(groups)) = (own.filter(|own| own.children.is_empty()), groups) {
            *own = groups;
        }
    });
}

/// One page of an answer whose set of items is too long for one: items from `from` on, at most `size`.
pub fn page(root: &mut Element, from: usize, size: usize) {
    let is_set = |child: &&mut Element| child.children.iter().any(|item| item.name() == "item");
    let Some(set) = root.children.iter_mut().find(is_set) else { return };
    let all = set.children.len();
    set.children = set.children.iter().skip(from).take(size).cloned().collect();
    root.children.retain(|child| child.name() != "nextToken");
    if from + size < all {
        root.children.push(Element::text("nextToken", &format!("page-{}", from + size)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::xml::parse;
    use super::*;

    #[test]
    fn pages_are_cut_and_say_whether_there_is_more() {
        let whole =
            "<R><requestId>x</requestId><fooSet><item>1</item><item>2</item><item>3</item></fooSet></R>";
        let cut = |from| {
            let mut root = parse(whole).unwrap();
            page(&mut root, from, 2);
            (root.all("item").len(), root.at(&["nextToken"]).to_owned())
        };
        assert_eq!(cut(0), (2, "page-2".to_owned()));
        assert_eq!(cut(2), (1, String::new()));
    }

    #[test]
    fn launch_times_are_set_back() {
        let text = "<R><reservationSet><item><instancesSet><item><launchTime>2026-01-01T00:10:00.000Z</launchTime></item></instancesSet></item>\
            </reservationSet></R>";
        let mut root = parse(text).unwrap();
        age(&mut root, SignedDuration::from_mins(10));
        assert_eq!(root.all("launchTime")[0].text, "2026-01-01T00:00:00Z");
    }

    #[test]
    fn instances_have_the_groups_of_their_interfaces() {
        let text = "<R><reservationSet><item><instancesSet><item><groupSet></groupSet><networkInterfaceSet><item><groupSet>\
            <item><groupId>sg-1</groupId></item></groupSet></item></networkInterfaceSet></item></instancesSet></item>\
            </reservationSet></R>";
        let mut root = parse(text).unwrap();
        assert_eq!(root.all("groupId").len(), 1);
        add_groups(&mut root);
        assert_eq!(root.all("groupId").len(), 2);
    }

    #[test]
    fn refusals_speak_each_protocol() {
        let of = |service: &str| {
            let call = Call { service: service.to_owned(), ..Call::default() };
            Answer::refusal(&call, &Refusal::throttled(&call))
        };
        assert!(of("ec2").body.contains("<Response><Errors><Error><Code>RequestLimitExceeded</Code>"));
        assert!(of("iam").body.contains("<ErrorResponse><Error><Type>Sender</Type><Code>Throttling</Code>"));
        assert_eq!(of("ssm").headers["x-amzn-errortype"], "ThrottlingException");
        assert_eq!((of("ec2").status, of("ssm").status), (503, 400));
    }

    /// "NoSuchEntity: The role with name joakiboxxx_role cannot be found." (hashicorp/terraform-provider-aws#6079)
    #[test]
    fn a_role_that_is_missing_is_named_in_the_words_of_iam() {
        let params = super::super::call::decode("InstanceProfileName=p&RoleName=absent");
        let call = Call {
            service: "iam".to_owned(),
            action: "AddRoleToInstanceProfile".to_owned(),
            params,
            ..Call::default()
        };
        let told = |status: u16, body: &str| {
            reworded(&call, Answer { status, body: body.to_owned(), ..Answer::default() }).body
        };
        let of_role = told(404, "<Message>Role absent not found</Message>");
        assert!(
            of_role.contains("<Code>NoSuchEntity</Code><Message>The role with name absent cannot be found.")
        );
        for (status, other) in
            [(404, "<Message>Instance profile p not found</Message>"), (200, "Role absent ")]
        {
            assert_eq!(told(status, other), other);
        }
    }

    #[test]
    fn products_come_in_pages() {
        let prices: Vec<(String, String)> =
            ["a", "b", "c"].map(|name| (name.to_owned(), "1".to_owned())).into();
        let ask = |tenancy: &str, token: Option<&str>| {
            let json = json!({"Filters": [{"Field": "tenancy", "Value": tenancy}], "NextToken": token});
            let answer = products(&Call { json, ..Call::default() }, &prices, 2);
            let value: Value = serde_json::from_str(&answer.body).unwrap();
            (value["PriceList"].as_array().unwrap().len(), value["NextToken"].clone())
        };
        assert_eq!(ask("Shared", None), (2, json!("2")));
        assert_eq!(ask("Shared", Some("2")), (1, Value::Null));
        assert_eq!(ask("Dedicated", None), (0, Value::Null));
    }
}
