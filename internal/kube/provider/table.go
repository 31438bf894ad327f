package provider

import "slices"

// notRunning are messages of Docker's client.
var notRunning = Problem{Output: `cannot connect to the docker daemon|is the docker daemon running|error during connect|podman.*refused`,
	Text: "the container runtime does not answer", Hint: "start Docker or Podman, and try `docker ps`"}

// tag marks clusters of tare at their provider.
const tag = "created-by=tare"

// kindConfig has as many workers as nodes, beside a control plane that runs no pods. One node is both.
const kindConfig = `kind: Cluster
apiVersion: kind.x-k8s.io/v1alpha4
nodes:
- role: control-plane
{{- if gt .Nodes 1}}{{range .Nodes}}
- role: worker
{{- end}}{{end}}
`

// Providers is the table, in the order of the help.
func Providers() []Provider {
	return slices.Clone(providers)
}

var providers = []Provider{
	{
		Name: "kind", Doc: "containers on this machine; above one node, a control plane beside the nodes",
		Programs: []string{"kind"}, Install: "install kind (kind.sigs.k8s.io): go install sigs.k8s.io/kind@latest",
		Has:     []string{"version"},
		List:    Call{Program: "kind", Args: [][]string{{"get", "clusters"}}},
		Listed:  `^${name}$`,
		Context: "kind-${name}",
		Create: []Call{{Program: "kind", Args: [][]string{{"create", "cluster", "--name", "${name}", "--config", "-", "--wait", "5m"},
			{"--image", "kindest/node:v${version}"}}, Input: kindConfig}},
		Delete: []Call{{Program: "kind", Args: [][]string{{"delete", "cluster", "--name", "${name}"}}}},
		Problems: []Problem{notRunning,
			{Output: `manifest .*not found|failed to pull image`, Text: "there is no node image of this version", Hint: "choose a version from the release notes of kind"}},
	},
	{
		Name: "k3d", Doc: "k3s in containers on this machine, without Traefik",
		Programs: []string{"k3d"}, Install: "install k3d (k3d.io): go install github.com/k3d-io/k3d/v5@latest",
		Has:     []string{"version"},
		List:    Call{Program: "k3d", Args: [][]string{{"cluster", "list", "--no-headers"}}},
		Listed:  `^${name}\s`,
		Context: "k3d-${name}",
		Create: []Call{{Program: "k3d", Args: [][]string{{"cluster", "create", "${name}", "--servers", "1", "--agents", "${agents}",
			"--k3s-arg", "--disable=traefik@server:*", "--wait", "--timeout", "5m"},
			{"--image", "rancher/k3s:v${version}-k3s1"}}}},
		Delete: []Call{{Program: "k3d", Args: [][]string{{"cluster", "delete", "${name}"}}}},
		Problems: []Problem{notRunning,
			{Output: `manifest .*not found|failed to pull image`, Text: "there is no k3s image of this version", Hint: "choose a version from the releases of k3s"}},
	},
	{
		Name: "k3s", Doc: "one node, this machine itself, as a systemd unit; needs root",
		Programs: []string{"k3s", "systemd-run", "systemctl", "k3s-killall.sh"}, Install: "install k3s without starting it (k3s.io): INSTALL_K3S_SKIP_START=true",
		MaxNodes: 1,
		List:     Call{Program: "systemctl", Args: [][]string{{"list-units", "--all", "--plain", "--no-legend", "k3s.service", "tare-k3s-*.service"}}},
		Listed:   `^tare-k3s-${name}\.service\s.*\s(active|activating)\s`,
		Other:    `^((?:k3s|tare-k3s-\S+)\.service)\s.*\s(?:active|activating)\s`,
		Create: []Call{{Program: "systemd-run", Args: [][]string{{"--unit=tare-k3s-${name}", "--collect", "--service-type=notify", "--property=Delegate=yes", "--property=KillMode=process", "--property=TimeoutStartSec=0",
			"k3s", "server", "--node-name", "${name}", "--data-dir", "/var/lib/tare-k3s/${name}", "--write-kubeconfig", "/var/lib/tare-k3s/${name}/kubeconfig", "--disable", "traefik"}}}},
		Separate: "/var/lib/tare-k3s/${name}/kubeconfig", Context: "k3s-${name}",
		Delete: []Call{{Program: "systemctl", Args: [][]string{{"stop", "tare-k3s-${name}"}}, Absent: `not loaded`},
			{Program: "k3s-killall.sh", Env: []string{"K3S_DATA_DIR=/var/lib/tare-k3s/${name}"}}},
		State: "/var/lib/tare-k3s/${name}", Outlives: true, // the pods of a server that died
		Problems: []Problem{
			{Output: `interactive authentication required|access denied|permission denied|must be run as root`, Text: "k3s needs root", Hint: "run it with sudo, or use k3d"},
			{Output: `not been booted with systemd`, Text: "this machine runs no systemd", Hint: "use k3d"}},
	},
	{
		Name: "gke", Doc: "Google Kubernetes Engine; --zone is a zone",
		Programs: []string{"gcloud", "gke-gcloud-auth-plugin"}, Install: "install the Google Cloud CLI (cloud.google.com/sdk), and run: gcloud components install gke-gcloud-auth-plugin",
		Needs: []string{"project", "zone"}, Has: []string{"project", "zone", "machine", "version"},
		Default: Settings{Nodes: 3, Machine: "e2-standard-4"},
		List:    Call{Program: "gcloud", Args: [][]string{{"container", "clusters", "list", "--project", "${project}", "--zone", "${zone}", "--format", "value(name)"}}},
		Listed:  `^${name}$`,
		Context: "gke_${project}_${zone}_${name}",
		Create: []Call{{Program: "gcloud", Args: [][]string{{"container", "clusters", "create", "${name}", "--project", "${project}", "--zone", "${zone}",
			"--num-nodes", "${nodes}", "--labels", tag, "--quiet"}, {"--machine-type", "${machine}"}, {"--cluster-version", "${version}"}}}},
		Delete: []Call{{Program: "gcloud", Args: [][]string{{"container", "clusters", "delete", "${name}", "--project", "${project}", "--zone", "${zone}", "--quiet"}}}},
		Problems: []Problem{
			{Output: `do not currently have an active account|gcloud auth login|reauthentication`, Text: "you are not signed in to Google Cloud", Hint: "run: gcloud auth login"},
			{Output: `insufficient (regional|project) quota|quota_exceeded|quota .* exceeded`, Text: "the quota of the project is too small", Hint: "choose fewer --nodes or a smaller --machine, or request more quota"},
			{Output: `has not been used in project|service_disabled|api .*not enabled`, Text: "the Kubernetes Engine API is disabled in the project", Hint: "run: gcloud services enable container.googleapis.com"},
			{Output: `zone_resource_pool_exhausted|does not have enough resources`, Text: "the zone has no free machines of this type", Hint: "choose another --zone or --machine"},
			{Output: `required ".*" permission|permission_denied`, Text: "your account has no permission for this in the project", Hint: "it needs the role roles/container.admin"}},
	},
	{
		Name: "aks", Doc: "Azure Kubernetes Service, in a resource group tare-NAME; --zone is a location",
		Programs: []string{"az"}, Install: "install the Azure CLI (learn.microsoft.com/cli/azure), and kubelogin if your organisation signs in with Entra ID",
		Needs: []string{"zone"}, Has: []string{"zone", "machine", "version"},
		Default: Settings{Nodes: 3, Machine: "Standard_D4s_v5"},
		Account: &Call{Program: "az", Args: [][]string{{"account", "show", "--query", "id", "--output", "tsv"}}},
		Switch:  "run: az account set --subscription ${account}",
		List:    Call{Program: "az", Args: [][]string{{"group", "list", "--query", "[].name", "--output", "tsv"}}},
		Listed:  `(?i)^tare-${name}$`, // Azure compares names of groups without case
		Context: "${name}",
		Create: []Call{
			{Program: "az", Args: [][]string{{"group", "create", "--name", "tare-${name}", "--location", "${zone}", "--tags", tag, "--output", "none"}}},
			{Program: "az", Args: [][]string{{"aks", "create", "--resource-group", "tare-${name}", "--name", "${name}", "--node-count", "${nodes}", "--generate-ssh-keys", "--tags", tag, "--output", "none"},
				{"--node-vm-size", "${machine}"}, {"--kubernetes-version", "${version}"}}},
			{Program: "az", Args: [][]string{{"aks", "get-credentials", "--resource-group", "tare-${name}", "--name", "${name}", "--file", "${kubeconfig}"}}}},
		Delete: []Call{{Program: "az", Args: [][]string{{"group", "delete", "--name", "tare-${name}", "--yes"}}}},
		Problems: []Problem{
			{Output: `az login|interactive authentication is needed|aadsts`, Text: "you are not signed in to Azure", Hint: "run: az login"},
			{Output: `quotaexceeded|insufficientvcpuquota|exceeding approved .* quota`, Text: "the quota of the subscription is too small", Hint: "choose fewer --nodes or a smaller --machine, or request more quota"},
			{Output: `vm size of .* is not allowed|skunotavailable`, Text: "the location has no machines of this type for you", Hint: "choose another --machine or --zone"},
			{Output: `authorizationfailed`, Text: "your account has no permission for this in the subscription", Hint: "it needs the role Contributor"}},
	},
	{
		Name: "eks", Doc: "Amazon Elastic Kubernetes Service; --zone is a region",
		Programs: []string{"eksctl", "aws"}, Install: "install eksctl (eksctl.io) and the AWS CLI",
		Needs: []string{"zone"}, Has: []string{"zone", "machine", "version"},
		Default: Settings{Nodes: 3, Machine: "m5.xlarge"},
		Account: &Call{Program: "aws", Args: [][]string{{"sts", "get-caller-identity", "--query", "Account", "--output", "text"}}},
		Switch:  "set AWS_PROFILE to a profile of account ${account}",
		// The stack, not the cluster: a failed creation leaves the one without the other, and it prevents the next creation.
		List:    Call{Program: "aws", Args: [][]string{{"cloudformation", "describe-stacks", "--region", "${zone}", "--query", "Stacks[].[StackName]", "--output", "text"}}},
		Listed:  `^eksctl-${name}-cluster$`,
		Context: "*@${name}.${zone}.eksctl.io",
		Create: []Call{{Program: "eksctl", Args: [][]string{{"create", "cluster", "--name", "${name}", "--region", "${zone}", "--nodes", "${nodes}", "--tags", tag,
			"--kubeconfig", "${kubeconfig}"}, {"--node-type", "${machine}"}, {"--version", "${version}"}}}},
		Delete: []Call{
			{Program: "eksctl", Args: [][]string{{"delete", "cluster", "--name", "${name}", "--region", "${zone}", "--disable-nodegroup-eviction", "--wait"}}, Absent: `no cluster found for name`},
			{Program: "aws", Args: [][]string{{"cloudformation", "delete-stack", "--region", "${zone}", "--stack-name", "eksctl-${name}-cluster"}}},
			{Program: "aws", Args: [][]string{{"cloudformation", "wait", "stack-delete-complete", "--region", "${zone}", "--stack-name", "eksctl-${name}-cluster"}}}},
		Problems: []Problem{
			{Output: `checking aws sts access|unable to locate credentials|error loading sso token|sso session .*expired|nocredentialproviders|refresh cached credentials|expiredtoken|invalidclienttokenid`, Text: "you are not signed in to AWS", Hint: "run: aws configure, or aws sso login; `aws sts get-caller-identity` shows your account"},
			{Output: `limitexceeded|vcpulimit|maximum number of .* has been reached|service quota`, Text: "a quota of the account is too small", Hint: "choose fewer --nodes or a smaller --machine, or request more quota"},
			{Output: `unsupportedavailabilityzone|insufficientinstancecapacity`, Text: "the region has no free machines of this type", Hint: "choose another --zone or --machine"},
			{Output: `accessdenied|not authorized to perform`, Text: "your account has no permission for this", Hint: "eksctl.io lists the minimum IAM policies"}},
	},
	{
		Name: "tare-cluster", Doc: "the test cluster of tare's repository; needs root",
		Programs: []string{"tare-cluster"}, Install: "build it with `make bin/tare-cluster` in tare's repository, and run there with PATH=$PWD/bin:$PATH",
		MaxNodes: 9,
		List:     Call{Program: "tare-cluster", Args: [][]string{{"status", "--name", "${name}"}}},
		Listed:   `^cluster ${name}: (up|not ready)`,
		Create:   []Call{{Program: "tare-cluster", Args: [][]string{{"up", "--name", "${name}", "--nodes", "${nodes}"}}}},
		Delete:   []Call{{Program: "tare-cluster", Args: [][]string{{"down", "--name", "${name}"}}}},

		SeparateFrom: &Call{Program: "tare-cluster", Args: [][]string{{"kubeconfig", "--name", "${name}"}}},
		Context:      "tare-cluster-${name}",
		Problems: []Problem{
			{Output: `it takes root|operation not permitted`, Text: "the test cluster needs root", Hint: "run it as root, or use kind"}},
	},
}
