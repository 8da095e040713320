// One binary that is every part of a Kubernetes control plane, by the name it is called by.
//
// The end-to-end tier builds it when KUBEBUILDER_ASSETS does not name a folder with all the parts,
// and links kube-apiserver, etcd, kube-scheduler, kube-controller-manager and kubectl to it. One
// link step and one copy of the shared code: half the size and build time of five binaries.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	_ "time/tzdata" // time zones of CronJobs and schedules, on hosts without a database of them

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// servers are the parts that run until they are stopped.
var servers = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": func() *cobra.Command { return controllermanager.NewControllerManagerCommand() },
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
}

func main() {
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe")
	switch name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kubectl":
		runKubectl()
	default:
		newCommand, known := servers[name]
		if !known {
			fmt.Fprintf(os.Stderr, "%q is no part of a control plane: call this binary through a link named "+
				"etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kubectl\n", name)
			os.Exit(2)
		}
		os.Exit(cli.Run(newCommand()))
	}
}

func runKubectl() {
	// kubectl reads its verbosity before it parses flags, so that plugin lookup can log.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
}
