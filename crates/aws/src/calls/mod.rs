//! The calls to AWS: our own request and response types, and the trait over them.
//!
//! An adapter over the official SDK implements [`AwsApi`], and so does the fake region (feature `testing`). Each method is one AWS call,
//! or one call with all its pages.

mod error;
mod fleet;
mod instance_type;
mod network;
mod others;

use std::time::Duration;

use async_trait::async_trait;

pub use error::{AwsError, ErrorClass, classify};
pub use fleet::{
    FleetAnswer, FleetError, FleetInstance, FleetKind, FleetRequest, InstanceInfo, InstanceTrial,
    LaunchTemplate, Market, Override, Strategy, TagSet, TemplateData, TemplateInterface, TemplateReservation,
    TemplateVolume,
};
pub use instance_type::{
    Accelerator, Card, Gpu, InstanceTypeDescription, Network, NeuronDevice, SoldIn, Storage,
};
pub use network::{Filter, GroupInfo, PlacementGroup, SubnetInfo};
pub use others::{ClusterInfo, Image, InstanceStatus, Message, ProfileInfo, ReservationInfo, ZonalShift};

pub use fleetwright_core::{cloud::Figure, model::Price};

/// How long `CreateFleet` may take: an instant fleet answers when it has launched. Karpenter waits as long.
pub const FLEET_TIMEOUT: Duration = Duration::from_secs(240);
const _: () = assert!(
    FLEET_TIMEOUT.as_secs() < fleetwright_core::cloud::LAUNCH_DEADLINE.as_secs(),
    "the answer of a slow call is taken"
);

/// The calls to AWS.
#[async_trait]
pub trait AwsApi: Send + Sync + 'static {
    /// Returns the figures that a layer between the provider and AWS has gathered for metrics since the last call.
    fn figures(&self) -> Vec<Figure> {
        Vec::new()
    }
    /// `DescribeInstanceTypes`: virtual machines of x86_64 and arm64.
    async fn instance_types(&self) -> Result<Vec<InstanceTypeDescription>, AwsError>;
    /// `DescribeInstanceTypeOfferings` by zone.
    async fn sold_in(&self) -> Result<Vec<SoldIn>, AwsError>;
    /// `DescribeSubnets`.
    async fn subnets(&self, filters: &[Filter]) -> Result<Vec<SubnetInfo>, AwsError>;
    /// `DescribeSecurityGroups`.
    async fn security_groups(&self, filters: &[Filter]) -> Result<Vec<GroupInfo>, AwsError>;
    /// `DescribePlacementGroups`, available ones.
    async fn placement_groups(
        &self,
        id: Option<&str>,
        name: Option<&str>,
    ) -> Result<Vec<PlacementGroup>, AwsError>;
    /// `DescribeImages`, available ones, deprecated ones included; without owners, images of all owners.
    async fn images(&self, owners: &[String], filters: &[Filter]) -> Result<Vec<Image>, AwsError>;
    /// `DescribeCapacityReservations`, active ones and those that start later.
    async fn reservations(
        &self,
        id: Option<&str>,
        filters: &[Filter],
    ) -> Result<Vec<ReservationInfo>, AwsError>;
    /// `ssm:GetParameter`.
    async fn parameter(&self, name: &str) -> Result<String, AwsError>;
    /// `CreateFleet` of type `instant`.
    async fn create_fleet(&self, request: &FleetRequest) -> Result<FleetAnswer, AwsError>;
    /// `CreateFleet` as a dry run: whether it would be allowed.
    async fn try_fleet(&self, request: &FleetRequest) -> Result<(), AwsError>;
    /// `RunInstances` as a dry run: whether one instance would be allowed.
    async fn try_instance(&self, trial: &InstanceTrial<'_>) -> Result<(), AwsError>;
    /// `DescribeInstances` without terminated ones; ids and filters both narrow the result.
    async fn instances(&self, ids: &[String], filters: &[Filter]) -> Result<Vec<InstanceInfo>, AwsError>;
    /// `DescribeInstanceStatus`, impaired ones and ones with events.
    async fn instance_statuses(&self) -> Result<Vec<InstanceStatus>, AwsError>;
    /// `TerminateInstances`: one result for all.
    async fn terminate(&self, ids: &[String]) -> Result<(), AwsError>;
    /// `CreateTags` on one resource.
    async fn create_tags(&self, id: &str, tags: &TagSet) -> Result<(), AwsError>;
    /// `DescribeLaunchTemplates`.
    async fn launch_templates(&self, filters: &[Filter]) -> Result<Vec<LaunchTemplate>, AwsError>;
    /// `CreateLaunchTemplate`.
    async fn create_launch_template(
        &self,
        name: &str,
        data: &TemplateData,
        tags: &TagSet,
    ) -> Result<(), AwsError>;
    /// `DeleteLaunchTemplate`.
    async fn delete_launch_template(&self, name: &str) -> Result<(), AwsError>;
    /// `pricing:GetProducts`: on-demand prices of a region.
    async fn on_demand_prices(&self, region: &str) -> Result<Vec<(String, Price)>, AwsError>;
    /// `DescribeSpotPriceHistory` from now on: type, zone, price.
    async fn spot_prices(&self) -> Result<Vec<((String, String), Price)>, AwsError>;
    /// `eks:DescribeCluster`.
    async fn cluster(&self, name: &str) -> Result<ClusterInfo, AwsError>;
    /// `arc-zonal-shift:GetManagedResource`: the shifts of a cluster.
    async fn zonal_shifts(&self, cluster_arn: &str) -> Result<Vec<ZonalShift>, AwsError>;
    /// `sqs:ReceiveMessage`: up to ten messages; waits for the first one for `wait`, at most 20 s.
    async fn receive(&self, queue: &str, wait: Duration) -> Result<Vec<Message>, AwsError>;
    /// `sqs:DeleteMessageBatch` of up to ten, for which IAM checks `sqs:DeleteMessage`: the result of each, in the order of the receipts.
    async fn delete_messages(
        &self,
        queue: &str,
        receipts: &[String],
    ) -> Result<Vec<Result<(), AwsError>>, AwsError>;
    /// `iam:GetInstanceProfile`.
    async fn profile(&self, name: &str) -> Result<ProfileInfo, AwsError>;
    /// `iam:ListInstanceProfiles` below a path.
    async fn profiles(&self, path: &str) -> Result<Vec<ProfileInfo>, AwsError>;
    /// `iam:CreateInstanceProfile`.
    async fn create_profile(&self, name: &str, path: &str, tags: &TagSet) -> Result<(), AwsError>;
    /// `iam:AddRoleToInstanceProfile`.
    async fn add_role(&self, profile: &str, role: &str) -> Result<(), AwsError>;
    /// `iam:RemoveRoleFromInstanceProfile`.
    async fn remove_role(&self, profile: &str, role: &str) -> Result<(), AwsError>;
    /// `iam:DeleteInstanceProfile`.
    async fn delete_profile(&self, name: &str) -> Result<(), AwsError>;
}
