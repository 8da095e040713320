//! Images: their architectures, and those that the account may not use.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::consistency::is_unseen;
use crate::fleet::Blocked;
use crate::xml::Element;

/// Why the account may not launch an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Withheld {
    /// Its owner withdrew the launch permission, at this time.
    Permission(Timestamp),
    /// The account has no subscription to the Marketplace product of the image, which has this product code.
    Subscription(String),
}

/// What is known of images, by id.
#[derive(Clone, Debug, Default)]
pub struct Images {
    /// Architectures; moto forgets those of images that were registered.
    pub architectures: BTreeMap<String, &'static str>,
    /// Images that the account may not launch.
    pub withheld: BTreeMap<String, Withheld>,
}

impl Images {
    /// Why EC2 does not launch an image.
    ///
    /// "AuthFailure: […] You might not be authorized to carry out the request; for example, […] trying to use an AMI for which you do not have
    /// permissions." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html>), in the words of Orange-Cyberdefense/GOAD#304.
    /// "OptInRequired: You are not authorized to use the requested service. Ensure that you have subscribed to the service you are trying to use."
    /// (same page), in the words of F5Networks/f5-aws-cloudformation#45. That a dry run says the same is not documented.
    pub(crate) fn refusal(&self, id: &str) -> Option<Blocked> {
        Some(match self.withheld.get(id)? {
            Withheld::Permission(_) => {
                ("AuthFailure".to_owned(), format!("Not authorized for images: [{id}]"))
            }
            Withheld::Subscription(product) => {
                let message = format!(
                    "In order to use this AWS Marketplace product you need to accept terms and subscribe. To do so please visit \
                     https://aws.amazon.com/marketplace/pp?sku={product}"
                );
                ("OptInRequired".to_owned(), message)
            }
        })
    }

    /// Changes an answer of `DescribeImages` to what the account sees `delay` after a change: the architectures, and no image without
    /// launch permission.
    ///
    /// "The images available to you include public images, private images that you own, and private images owned by other AWS accounts for which
    /// you have explicit launch permissions." (<https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeImages.html>)
    pub(crate) fn show(&self, root: &mut Element, delay: SignedDuration, now: Timestamp) {
        let Some(set) = root.children.iter_mut().find(|child| child.name() == "imagesSet") else { return };
        set.children.retain(|image| match self.withheld.get(image.at(&["imageId"])) {
            Some(Withheld::Permission(since)) => is_unseen(*since, delay, now),
            Some(Withheld::Subscription(_)) | None => true,
        });
        for image in &mut set.children {
            let known = self.architectures.get(image.at(&["imageId"]));
            if let Some(architecture) = known.filter(|_| image.child("architecture").is_none()) {
                image.children.push(Element::text("architecture", architecture));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
    }

    /// The ids of two images that are shown some seconds after a change that is seen a minute late.
    fn shown(images: &Images, seconds: i64) -> Vec<String> {
        let image = |id| Element::of("item", vec![Element::text("imageId", id)]);
        let mut root = Element::of("R", vec![Element::of("imagesSet", vec![image("ami-1"), image("ami-2")])]);
        images.show(&mut root, SignedDuration::from_mins(1), at(seconds));
        root.all("imageId").iter().map(|id| id.text.clone()).collect()
    }

    fn withheld(why: Withheld) -> Images {
        Images { withheld: [("ami-1".to_owned(), why)].into(), ..Images::default() }
    }

    #[test]
    fn images_get_their_architecture() {
        let images = Images { architectures: [("ami-1".to_owned(), "arm64")].into(), ..Images::default() };
        let image = |id| Element::of("item", vec![Element::text("imageId", id)]);
        let mut root = Element::of("R", vec![Element::of("imagesSet", vec![image("ami-1"), image("ami-2")])]);
        images.show(&mut root, SignedDuration::ZERO, at(0));
        assert_eq!(root.all("architecture"), [&Element::text("architecture", "arm64")]);
    }

    /// "[…] private images owned by other AWS accounts for which you have explicit launch permissions." (`API_DescribeImages.html`)
    #[test]
    fn an_image_without_launch_permission_is_refused_and_then_not_shown() {
        let images = withheld(Withheld::Permission(at(0)));
        assert_eq!(shown(&images, 59), ["ami-1", "ami-2"], "the change is seen late");
        assert_eq!(shown(&images, 60), ["ami-2"]);
        let (code, message) = images.refusal("ami-1").unwrap();
        assert_eq!((&*code, &*message), ("AuthFailure", "Not authorized for images: [ami-1]"));
        assert_eq!(images.refusal("ami-2"), None);
    }

    /// "In order to use this AWS Marketplace product you need to accept terms and subscribe. To do so please visit […] (Service: AmazonEC2; Status
    /// Code: 401; Error Code: OptInRequired […])" (F5Networks/f5-aws-cloudformation#45)
    #[test]
    fn a_marketplace_image_without_subscription_is_shown_and_refused() {
        let images = withheld(Withheld::Subscription("8esk90vx7v713sa0muq2skw3j".to_owned()));
        assert_eq!(shown(&images, 3600), ["ami-1", "ami-2"]);
        let (code, message) = images.refusal("ami-1").unwrap();
        assert_eq!(code, "OptInRequired");
        assert!(
            message.ends_with(
                "please visit https://aws.amazon.com/marketplace/pp?sku=8esk90vx7v713sa0muq2skw3j"
            )
        );
    }
}
