// The container that holds a pod's namespaces: it waits to be told to end.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	// Whoever loses its parent in a shared process namespace becomes our child; ignored, the kernel buries it.
	signal.Ignore(syscall.SIGCHLD)
	told := make(chan os.Signal, 1)
	signal.Notify(told, syscall.SIGINT, syscall.SIGTERM)
	<-told
}
