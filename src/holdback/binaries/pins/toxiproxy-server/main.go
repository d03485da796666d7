// Command toxiproxy-server is Toxiproxy whose API answers only those who know the run's own token.
//
// Server, proxies and toxics are those of github.com/Shopify/toxiproxy/v2, untouched. Its own command asks nobody who he is,
// and every user of a machine can reach its loopback.
package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

func main() {
	port := flag.Int("port", 8474, "the API's port on loopback")
	tokenFile := flag.String("token-file", "", "file with the token that requests to the API must bear")
	version := flag.Bool("version", false, "print the version of Toxiproxy")
	flag.Parse()
	if *version {
		fmt.Printf("toxiproxy-server version %s\n", toxiproxy.Version)
		return
	}
	if err := serve(*port, *tokenFile); err != nil {
		fmt.Fprintf(os.Stderr, "toxiproxy-server: %v\n", err)
		os.Exit(1)
	}
}

// serve answers until the process is killed: there is nothing to save.
func serve(port int, tokenFile string) error {
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return err
	}
	if len(token) == 0 {
		return errors.New("the token file is empty")
	}
	logger := zerolog.New(os.Stdout).Level(zerolog.WarnLevel).With().Timestamp().Logger()
	api := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), logger)
	server := http.Server{
		Addr:    net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Handler: guarded(api.Routes(), string(token)),
		// No other limits: a connection that is closed for being idle could be met by a request.
		ReadHeaderTimeout: 15 * time.Second,
	}
	return server.ListenAndServe()
}

// guarded lets requests with the token through to the API. The time it takes tells nothing of the token.
func guarded(api http.Handler, token string) http.Handler {
	wanted := sha256.Sum256([]byte("Bearer " + token))
	return http.HandlerFunc(func(response http.ResponseWriter, request *http.Request) {
		given := sha256.Sum256([]byte(request.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(given[:], wanted[:]) != 1 {
			http.Error(response, "the run's own token is needed", http.StatusUnauthorized)
			return
		}
		api.ServeHTTP(response, request)
	})
}
