// Package interop calls phasord with code that is generated from its protos alone.
package interop

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Starts a server of the test's own on a free port, which is drained when the test ends, and connects to it.
func connect(t *testing.T, flags ...string) *grpc.ClientConn {
	t.Helper()
	usual := []string{"--listen=127.0.0.1:0", "--metrics-listen=off", "--drain-delay=0", "--log-level=warning"}
	server := exec.Command(os.Getenv("INTEROP_PHASORD"), append(usual, flags...)...)
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "PHASOR_") {
			server.Env = append(server.Env, variable)
		}
	}
	server.Stderr = os.Stderr
	output, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGTERM)
		if err := server.Wait(); err != nil {
			t.Errorf("phasord ended with: %v", err)
		}
	})
	ready, err := bufio.NewReader(output).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(ready), "listening on ")
	if err != nil || !found {
		t.Fatalf("phasord said %q (%v)", ready, err)
	}
	// grpc-go refuses answers over 4 MiB unless told otherwise.
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<30), grpc.MaxCallSendMsgSize(1<<30)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
