//! What the emulator refuses, hides and remembers.
use super::*;
use crate::call::decode;
use crate::images::Withheld;

fn call(service: &str, action: &str, form: &str) -> Call {
    let params = decode(form);
    Call { service: service.to_owned(), action: action.to_owned(), params, ..Call::default() }
}

const TAGS: &str = "Tag.1.Key=kubernetes.io/cluster/prod&P.Tag.1.Value=owned&P.Tag.2.Key=eks:eks-cluster-name\
    &P.Tag.2.Value=prod&P.Tag.3.Key=fleetwright.dev/cluster-uid&P.Tag.3.Value=u&P.Tag.4.Key=karpenter.sh/nodepool\
    &P.Tag.4.Value=";

#[test]
fn what_is_made_without_tags_is_refused() {
    let rules = Rules { cluster: "prod".to_owned(), ..Rules::default() };
    let tagged = |kind: &str| {
        let place = "TagSpecification.1";
        format!("{place}.ResourceType={kind}&{place}.{}", TAGS.replace("P.", &format!("{place}.")))
    };
    let of = |form: &str| rules.is_untagged(&call("ec2", "CreateLaunchTemplate", form));
    assert!(!of(&tagged("launch-template")) && of(&tagged("instance")) && of(""));
    assert!(of(&tagged("launch-template").replace("=u&", "=&")), "the UID is empty");
    assert!(!Rules::default().is_untagged(&call("ec2", "CreateFleet", "")));
    assert!(!rules.is_untagged(&call("ec2", "TerminateInstances", "")));
}

#[test]
fn so_many_are_throttled_before_one_passes() {
    let mut rules = Rules { throttled: [("CreateFleet", 2)].into(), ..Rules::default() };
    let fleet = call("ec2", "CreateFleet", "");
    let refused: Vec<bool> = (0..6).map(|_| rules.refuse(&fleet, Timestamp::UNIX_EPOCH).is_some()).collect();
    assert_eq!(refused, [true, true, false, true, true, false]);
    assert!(rules.refuse(&call("ec2", "RunInstances", ""), Timestamp::UNIX_EPOCH).is_none());
}

#[test]
fn answers_are_lost_so_often() {
    let mut rules = Rules { lost: [("CreateFleet", 1)].into(), ..Rules::default() };
    let fleet = call("ec2", "CreateFleet", "");
    assert_eq!([rules.loses(&fleet), rules.loses(&fleet)], [true, false]);
}

#[test]
fn what_moto_has_not_is_answered_here() {
    let mut rules = Rules::default();
    rules.parameters.insert("/a".to_owned(), "ami-1".to_owned());
    let mut ask = call("ssm", "GetParameter", "");
    ask.json = serde_json::json!({"Name": "/a"});
    assert!(rules.answer(&ask, Timestamp::UNIX_EPOCH).unwrap().body.contains("ami-1"));
    ask.json = serde_json::json!({"Name": "/b"});
    assert!(rules.answer(&ask, Timestamp::UNIX_EPOCH).is_none(), "moto knows, or says that it does not");
    assert!(rules.answer(&call("ec2", "DescribeCapacityReservations", ""), Timestamp::UNIX_EPOCH).is_some());
    assert!(rules.answer(&call("ec2", "DescribeSubnets", ""), Timestamp::UNIX_EPOCH).is_none());
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

const TEMPLATE: &str = "LaunchTemplateName=karpenter/1&LaunchTemplateData.ImageId=ami-1&LaunchTemplateData.IamInstanceProfile.Name=p";
const FLEET: &str = "ClientToken=t&TargetCapacitySpecification.TotalTargetCapacity=2\
    &LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName=karpenter/1\
    &LaunchTemplateConfigs.1.Overrides.1.InstanceType=m5.large&LaunchTemplateConfigs.1.Overrides.1.AvailabilityZone=a";

/// Rules that know the template and its profile, whose role was added at second zero.
fn prepared() -> Rules {
    let mut rules = Rules { region: "us-west-2".to_owned(), ..Rules::default() };
    rules.note(&call("ec2", "CreateLaunchTemplate", TEMPLATE), at(0));
    rules.note(&call("iam", "CreateInstanceProfile", "InstanceProfileName=p"), at(0));
    rules.note(&call("iam", "AddRoleToInstanceProfile", "InstanceProfileName=p&RoleName=nodes"), at(0));
    rules
}

/// Number of instances and the codes of errors, or the code of the refusal.
fn decided(rules: &mut Rules, now: Timestamp) -> String {
    match rules.decide(&call("ec2", "CreateFleet", FLEET), now) {
        Decision::Again(_) => "again".to_owned(),
        Decision::Refused(refusal) => refusal.code,
        Decision::Launch(allocation) => {
            let codes = allocation.errors.iter().map(|error| error.at(&["errorCode"]).to_owned());
            let count = allocation.count().to_string();
            std::iter::once(count).chain(codes).collect::<Vec<_>>().join(" ")
        }
    }
}

/// EC2 on a profile that IAM has and EC2 does not see: "Value (p) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile
/// name" (upstream's `IsInstanceProfileNotFound`).
#[test]
fn a_profile_is_seen_late() {
    let mut rules = prepared();
    rules.delays.profiles = SignedDuration::from_secs(10);
    assert_eq!(decided(&mut rules, at(9)), "0 InvalidParameterValue");
    assert_eq!(decided(&mut rules, at(10)), "2");
    let trial = call("ec2", "RunInstances", "LaunchTemplate.LaunchTemplateName=karpenter/1&DryRun=true");
    let refused = rules.refuse(&trial, at(9)).unwrap();
    assert!(refused.message.contains("Invalid IAM Instance Profile name"), "{refused:?}");
    assert_eq!(rules.refuse(&trial, at(10)), None);
    rules.note(&call("iam", "RemoveRoleFromInstanceProfile", "InstanceProfileName=p"), at(20));
    assert_eq!(decided(&mut rules, at(60)), "0 InvalidParameterValue", "a profile without a role is none");
}

/// IAM on a profile that it does not show yet: "Instance Profile […] cannot be found." (DataBiosphere/toil#4836). "Changes that you make in IAM […]
/// might not be immediately visible" (<https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html>).
#[test]
fn a_profile_is_seen_late_by_iam_itself() {
    let mut rules = prepared();
    rules.delays.iam = SignedDuration::from_secs(5);
    for action in ["AddRoleToInstanceProfile", "GetInstanceProfile", "DeleteInstanceProfile"] {
        let own = call("iam", action, "InstanceProfileName=p&RoleName=nodes");
        let refused = rules.refuse(&own, at(4)).unwrap();
        assert_eq!((refused.status, refused.code.as_str()), (404, "NoSuchEntity"), "{action}");
        assert_eq!(refused.message, "Instance Profile p cannot be found.");
        assert_eq!(rules.refuse(&own, at(5)), None, "{action}");
        assert_eq!(
            rules.refuse(&call("iam", action, "InstanceProfileName=other"), at(0)),
            None,
            "moto knows"
        );
    }
    assert_eq!(rules.refuse(&call("iam", "CreateInstanceProfile", "InstanceProfileName=p"), at(0)), None);
    let list = |rules: &mut Rules, now| {
        let one = |name: &str| format!("<member><InstanceProfileName>{name}</InstanceProfileName></member>");
        let text = format!(
            "<R><ListInstanceProfilesResult><InstanceProfiles>{}{}</InstanceProfiles></ListInstanceProfilesResult></R>",
            one("p"),
            one("other")
        );
        let mut root = crate::xml::parse(&text).unwrap();
        rules.show(&call("iam", "ListInstanceProfiles", ""), &mut root, now).unwrap();
        root.all("member").len()
    };
    assert_eq!([list(&mut rules, at(4)), list(&mut rules, at(5))], [1, 2]);
}

/// "AuthFailure: […] trying to use an AMI for which you do not have permissions." "OptInRequired: […] Ensure that you have subscribed to the service
/// you are trying to use." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>)
#[test]
fn an_image_that_the_account_may_not_use_is_refused() {
    let trial = call("ec2", "RunInstances", "LaunchTemplate.LaunchTemplateName=karpenter/1&DryRun=true");
    for (why, status, code) in [
        (Withheld::Permission(at(0)), 400, "AuthFailure"),
        (Withheld::Subscription("sku".to_owned()), 401, "OptInRequired"),
    ] {
        let mut rules = prepared();
        rules.images.withheld = [("ami-1".to_owned(), why)].into();
        assert_eq!(decided(&mut rules, at(0)), format!("0 {code}"));
        let refused = rules.refuse(&trial, at(0)).unwrap();
        assert_eq!((refused.status, refused.code.as_str()), (status, code));
        // The image of the request goes before that of the template.
        let other = format!("{FLEET}&LaunchTemplateConfigs.1.Overrides.1.ImageId=ami-2");
        let decided = rules.decide(&call("ec2", "CreateFleet", &other), at(0));
        assert!(matches!(&decided, Decision::Launch(launched) if launched.count() == 2), "{decided:?}");
    }
}

/// "Each request that you make removes one token from the API's bucket."
#[test]
fn throttled_calls_and_instances_are_counted() {
    let mut rules = prepared();
    rules.buckets = Some(Buckets::default().after_launches_of_others(999, at(0)));
    assert_eq!(decided(&mut rules, at(0)), "1 RequestLimitExceeded");
    let run = call("ec2", "RunInstances", "");
    let refused = (0..7).filter(|_| rules.refuse(&run, at(0)).is_some()).count();
    assert_eq!(refused, 2);
    let counted = [("RunInstances", 2), (LAUNCHES, 1)].map(|(name, count)| (name.to_owned(), count));
    assert_eq!(rules.throttles, counted.into());
}

#[test]
fn a_template_is_seen_late() {
    let mut rules = prepared();
    rules.delays.templates = SignedDuration::from_secs(2);
    assert_eq!(decided(&mut rules, at(1)), "InvalidLaunchTemplateName.NotFoundException");
    let list = |rules: &mut Rules, now| {
        let text = "<R><launchTemplates><item><launchTemplateName>karpenter/1</launchTemplateName></item></launchTemplates></R>";
        let mut root = crate::xml::parse(text).unwrap();
        rules.show(&call("ec2", "DescribeLaunchTemplates", ""), &mut root, now).unwrap();
        root.all("item").len()
    };
    assert_eq!([list(&mut rules, at(1)), list(&mut rules, at(2))], [0, 1]);
    assert_eq!(decided(&mut rules, at(2)), "2");
}

/// "If you successfully run the RunInstances command, and then immediately run another command using the instance ID […], it may return an
/// InvalidInstanceID.NotFound error. This does not mean the instance does not exist."
#[test]
fn instances_are_seen_late_and_left_out_now_and_then() {
    let mut rules = prepared();
    let delays = Delays { omits: 0, ..Delays::strange() };
    rules.delays = delays;
    rules.launched(&Way::default(), &["i-1".to_owned(), "i-2".to_owned()], at(0));
    let shown = |rules: &mut Rules, asked: &str, now| {
        let one = |id: &str| {
            format!("<item><instancesSet><item><instanceId>{id}</instanceId></item></instancesSet></item>")
        };
        let text = format!("<R><reservationSet>{}{}</reservationSet></R>", one("i-1"), one("i-2"));
        let mut root = crate::xml::parse(&text).unwrap();
        let shown = rules.show(&call("ec2", "DescribeInstances", asked), &mut root, now);
        shown.map(|()| root.all("instanceId").len()).map_err(|refusal| refusal.code)
    };
    assert_eq!(shown(&mut rules, "", at(9)), Ok(0));
    assert_eq!(shown(&mut rules, "InstanceId.1=i-1", at(9)), Err("InvalidInstanceID.NotFound".to_owned()));
    assert_eq!(shown(&mut rules, "", at(10)), Ok(2));
    let tagging = call("ec2", "CreateTags", "ResourceId.1=i-1&Tag.1.Key=Name&Tag.1.Value=x");
    assert_eq!(
        rules.refuse(&tagging, at(0)).map(|refusal| refusal.code).as_deref(),
        Some("InvalidInstanceID.NotFound")
    );
    assert_eq!(rules.refuse(&tagging, at(1)), None);
    rules.delays.omits = 3;
    let sizes: Vec<_> = (0..6).map(|_| shown(&mut rules, "", at(60)).unwrap()).collect();
    assert_eq!(sizes, [2, 2, 1, 2, 2, 1]);
    assert_eq!(shown(&mut rules, "InstanceId.1=i-1", at(60)), Ok(2), "by id nothing is left out");
}

#[test]
fn policies_decide_in_the_words_of_ec2() {
    let mut rules = prepared();
    let policy = r#"{"Statement": [{"Effect": "Allow", "NotAction": "ec2:RunInstances", "Resource": "*"}]}"#;
    rules.policies.insert("KEY".to_owned(), Policies::of(&[policy]).unwrap());
    let own = |action: &str, form: &str| Call { access_key: "KEY".to_owned(), ..call("ec2", action, form) };
    let trial = own("RunInstances", "LaunchTemplate.LaunchTemplateName=karpenter/1&DryRun=true");
    let refused = rules.refuse(&trial, at(0)).unwrap();
    assert_eq!((refused.status, refused.code.as_str()), (403, "UnauthorizedOperation"));
    let expected = "You are not authorized to perform this operation. User: arn:aws:sts::123456789012:assumed-role/karpenter-controller/KEY is \
        not authorized to perform: ec2:RunInstances on resource: arn:aws:ec2:us-west-2:123456789012:launch-template/karpenter/1 because no \
        identity-based policy allows the ec2:RunInstances action. Encoded authorization failure message: ";
    assert!(refused.message.starts_with(expected), "{}", refused.message);
    assert!(rules.refuse(&own("DescribeSubnets", ""), at(0)).is_none());
    // A fleet is created, and its launches are denied.
    let Decision::Launch(allocation) = rules.decide(&own("CreateFleet", FLEET), at(0)) else {
        panic!("refused")
    };
    assert_eq!(allocation.errors[0].at(&["errorCode"]), "UnauthorizedOperation");
    assert_eq!(decided(&mut rules, at(0)), "2", "another caller may");
    let denied = r#"{"Statement": [{"Effect": "Allow", "NotAction": "ec2:Create*", "Resource": "*"}]}"#;
    rules.policies.insert("KEY".to_owned(), Policies::of(&[denied]).unwrap());
    let encoded = |rules: &mut Rules| rules.refuse(&own("CreateFleet", FLEET), at(0)).unwrap().message;
    assert_ne!(encoded(&mut rules), encoded(&mut rules), "the encoded part differs from call to call");
}

#[test]
fn a_token_is_decided_once() {
    let mut rules = prepared();
    rules.fleets.keep(&call("ec2", "CreateFleet", FLEET), "answer");
    assert_eq!(decided(&mut rules, at(0)), "again");
}

/// "The request must reach AWS within five minutes of the time stamp in the request."
#[test]
fn a_wrong_clock_is_refused() {
    let mut rules = Rules { skew: SignedDuration::from_mins(-6), ..Rules::default() };
    let signed = Call { signed: Some(at(0)), ..call("ec2", "DescribeSubnets", "") };
    assert_eq!(rules.refuse(&signed, at(0)).map(|refusal| refusal.code).as_deref(), Some("RequestExpired"));
    rules.skew = SignedDuration::from_mins(5);
    assert_eq!(rules.refuse(&signed, at(0)), None);
}

#[test]
fn calls_take_tokens_in_their_bucket() {
    let mut rules = Rules { buckets: Some(Buckets::default()), ..Rules::default() };
    let fleet = call("ec2", "CreateFleet", "");
    let admitted = (0..60).filter(|_| rules.refuse(&fleet, at(0)).is_none()).count();
    assert_eq!(admitted, 50);
    assert_eq!(
        rules.refuse(&fleet, at(0)).map(|refusal| refusal.code).as_deref(),
        Some("RequestLimitExceeded")
    );
    assert!(
        rules.refuse(&call("iam", "GetInstanceProfile", ""), at(0)).is_none(),
        "IAM has limits of its own"
    );
}

#[test]
fn instances_show_what_they_were_launched_with() {
    let mut rules = prepared();
    rules.supply.groups = vec![crate::capacity::PlacementGroup {
        id: "pg-1".to_owned(),
        name: "g".to_owned(),
        strategy: "partition",
        partitions: 2,
    }];
    let way = Way {
        reservation: Some("cr-1".to_owned()),
        group: Some(("pg-1".to_owned(), Some(2))),
        efas: 2,
        ..Way::default()
    };
    rules.launched(&way, &["i-1".to_owned()], at(0));
    let text = "<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><placement><groupName></groupName></placement>\
        <networkInterfaceSet></networkInterfaceSet></item></instancesSet></item></reservationSet></R>";
    let mut root = crate::xml::parse(text).unwrap();
    rules.show(&call("ec2", "DescribeInstances", ""), &mut root, at(0)).unwrap();
    let text = root.document();
    for part in [
        "<capacityReservationId>cr-1<",
        ">capacity-reservations-only<",
        "<groupId>pg-1<",
        "<partitionNumber>2<",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert_eq!(text.matches("<interfaceType>efa<").count(), 2);
}

/// The states of i-1 by `DescribeInstances`, and whether `DescribeInstanceStatus` has it.
fn state(rules: &mut Rules, now: Timestamp) -> (String, bool) {
    let text = "<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><code>16</code><name>running</name>\
        </instanceState></item></instancesSet></item></reservationSet></R>";
    let mut root = crate::xml::parse(text).unwrap();
    rules.show(&call("ec2", "DescribeInstances", ""), &mut root, now).unwrap();
    let states = root.all("instanceState");
    let state = format!("{} {}", states[0].at(&["code"]), states[0].at(&["name"]));
    let text = "<R><instanceStatusSet><item><instanceId>i-1</instanceId></item></instanceStatusSet></R>";
    let mut root = crate::xml::parse(text).unwrap();
    rules.show(&call("ec2", "DescribeInstanceStatus", ""), &mut root, now).unwrap();
    (state, root.all("item").len() == 1)
}

/// "When you launch an instance, it enters the pending state. […] After the instance is ready for you, it enters the running state." "When you terminate
/// it, […] its state changes to shutting-down" (<https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/ec2-instance-lifecycle.html>).
#[test]
fn instances_start_and_stop_in_their_time() {
    let mut rules = prepared();
    let seconds = SignedDuration::from_secs;
    rules.delays = Delays { starting: seconds(30), stopping: seconds(20), ..Delays::default() };
    let own = Way { market: "on-demand".to_owned(), instance_type: "m5.large".to_owned(), ..Way::default() };
    rules.supply.pools = [((own.instance_type.clone(), String::new(), own.market.clone()), 1)].into();
    rules.launched(&own, &["i-1".to_owned()], at(0));
    assert_eq!(state(&mut rules, at(29)), ("0 pending".to_owned(), false));
    assert_eq!(state(&mut rules, at(30)), ("16 running".to_owned(), true));
    let listed = |rules: &mut Rules, now| {
        let text = "<R><reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><name>running</name></instanceState>\
            </item></instancesSet></item></reservationSet></R>";
        let mut root = crate::xml::parse(text).unwrap();
        let form = "Filter.1.Name=instance-state-name&Filter.1.Value.1=running&Filter.1.Value.2=stopped";
        rules.show(&call("ec2", "DescribeInstances", form), &mut root, now).unwrap();
        root.all("instanceId").len()
    };
    assert_eq!(
        [listed(&mut rules, at(29)), listed(&mut rules, at(30))],
        [0, 1],
        "by the state that is shown"
    );
    let end = call("ec2", "TerminateInstances", "InstanceId.1=i-1");
    let answer = rules.answer(&end, at(40)).unwrap().body;
    assert!(
        answer.contains("<currentState><code>32</code><name>shutting-down</name></currentState>"),
        "{answer}"
    );
    rules.note(&end, at(40));
    rules.note(&end, at(55));
    assert_eq!(state(&mut rules, at(59)), ("32 shutting-down".to_owned(), false));
    assert_eq!(rules.supply.room(&own, at(59)).0, 0, "its capacity is free once it is terminated");
    assert_eq!(rules.reclaimed(at(59)), Vec::<String>::new());
    assert_eq!((rules.reclaimed(at(60)), rules.supply.room(&own, at(60)).0), (vec!["i-1".to_owned()], 1));
    let other = call("ec2", "TerminateInstances", "InstanceId.1=i-2");
    assert!(rules.answer(&other, at(61)).is_none(), "moto ends what it launched itself");
}

#[test]
fn quotas_of_the_account_refuse_templates_and_fleets() {
    let mut rules = Rules { fleets_left: Some(1), templates_max: Some(1), ..prepared() };
    let again = call("ec2", "CreateLaunchTemplate", "LaunchTemplateName=karpenter/2");
    let refused = rules.refuse(&again, at(0)).unwrap();
    assert_eq!(refused.code, "MaxTemplateLimitExceeded");
    rules.note(&call("ec2", "DeleteLaunchTemplate", "LaunchTemplateName=karpenter/1"), at(0));
    assert_eq!(rules.refuse(&again, at(0)), None);
    let mut rules = Rules { fleets_left: Some(1), ..prepared() };
    assert_eq!(decided(&mut rules, at(0)), "2");
    assert_eq!(decided(&mut rules, at(0)), "MaxFleetCountExceeded");
    rules.fleets_left = None;
    assert_eq!(decided(&mut rules, at(0)), "2");
}

#[test]
fn a_type_refuses_the_settings_that_it_does_not_support() {
    let mut rules = prepared();
    let template = format!("{TEMPLATE}&LaunchTemplateData.EnclaveOptions.Enabled=true");
    rules.note(&call("ec2", "CreateLaunchTemplate", &template), at(0));
    let trial =
        call("ec2", "RunInstances", "LaunchTemplate.LaunchTemplateName=karpenter/1&InstanceType=m5.large");
    assert_eq!(rules.unknown_types(&trial), ["m5.large"]);
    assert_eq!(rules.unknown_types(&call("ec2", "CreateFleet", FLEET)), ["m5.large"]);
    assert_eq!(decided(&mut rules, at(0)), "2", "of an unknown type nothing is refused");
    let described = "<R><instanceTypeSet><item><instanceType>m5.large</instanceType><nitroEnclavesSupport>unsupported</nitroEnclavesSupport>\
        </item></instanceTypeSet></R>";
    rules.learn_types(&crate::xml::parse(described).unwrap());
    assert_eq!(rules.unknown_types(&trial), Vec::<String>::new());
    assert_eq!(decided(&mut rules, at(0)), "0 Unsupported");
    assert_eq!(rules.refuse(&trial, at(0)).map(|refusal| refusal.code).as_deref(), Some("Unsupported"));
}

#[test]
fn spot_pools_have_prices() {
    let mut rules = prepared();
    let history = call("ec2", "DescribeSpotPriceHistory", "");
    assert!(rules.answer(&history, at(0)).is_none(), "moto answers where a case has no prices");
    rules.supply.spot_prices = [(("m5.large".to_owned(), "a".to_owned()), "0.0312".to_owned())].into();
    rules.prices = vec![("m5.large".to_owned(), "0.096".to_owned())];
    let answer = rules.answer(&history, at(0)).unwrap().body;
    assert!(answer.contains("<spotPrice>0.0312</spotPrice>"), "{answer}");
    let way = |market: &str, zone: &str| Way {
        market: market.to_owned(),
        instance_type: "m5.large".to_owned(),
        zone: zone.to_owned(),
        ..Way::default()
    };
    let priced = [("spot", "a"), ("spot", "b"), ("on-demand", "a")]
        .map(|(market, zone)| rules.price(&way(market, zone)));
    assert_eq!(priced, [Some(0.0312), None, Some(0.096)]);
}

/// "instance-status.status - The status of the instance (ok | impaired | initializing | insufficient-data | not-applicable)."
/// (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeInstanceStatus.html>)
#[test]
fn no_instance_is_impaired() {
    let mut rules = Rules::default();
    let impaired = "Filter.1.Name=instance-status.status&Filter.1.Value.1=impaired";
    let answer = rules.answer(&call("ec2", "DescribeInstanceStatus", impaired), at(0)).unwrap();
    assert!(answer.body.contains("<instanceStatusSet></instanceStatusSet>"), "{}", answer.body);
    assert!(rules.answer(&call("ec2", "DescribeInstanceStatus", ""), at(0)).is_none());
}
