// A client of HTTP/3 over quic-go.
//
// Arguments: move AUTHORITY_FILE ADDRESS PATH BYTES FILE. It goes to another port in the middle of a response: it probes the new path
// after so many bytes, goes there, and writes the content to the file.
//
// Arguments: ask URL AUTHORITY_FILE CONTENT_FILE DIRECTORY. It asks all the time, as `hand_over/asks.py` does, over a connection that is
// kept for as long as the server does.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

func transport() *quic.Transport {
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	check(err)
	return &quic.Transport{Conn: socket}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func trusting(authority string) *tls.Config {
	pem, err := os.ReadFile(authority)
	check(err)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{RootCAs: roots, ServerName: "localhost", NextProtos: []string{http3.NextProtoH3}}
}

func move(arguments []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Second)
	defer cancel()
	address, err := net.ResolveUDPAddr("udp4", arguments[1])
	check(err)
	count, err := strconv.ParseInt(arguments[3], 10, 64)
	check(err)
	file, err := os.Create(arguments[4])
	check(err)

	connection, err := transport().Dial(ctx, address, trusting(arguments[0]), &quic.Config{})
	check(err)
	client := (&http3.Transport{}).NewClientConn(connection)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://localhost"+arguments[2], nil)
	check(err)
	response, err := client.RoundTrip(request)
	check(err)
	_, err = io.CopyN(file, response.Body, count)
	check(err)

	path, err := connection.AddPath(transport())
	check(err)
	check(path.Probe(ctx))
	check(path.Switch())
	_, err = io.Copy(file, response.Body)
	check(err)
	check(file.Close())
	check(connection.CloseWithError(0x100, ""))
	fmt.Println(response.StatusCode)
}

func ask(arguments []string) {
	target, err := url.Parse(arguments[0])
	check(err)
	content, err := os.ReadFile(arguments[2])
	check(err)
	directory := arguments[3]
	noted := filepath.Join(directory, "quic-go"+strings.ReplaceAll(target.Path, "/", "-"))
	client := &http.Client{Transport: &http3.Transport{TLSClientConfig: trusting(arguments[1])}, Timeout: 50 * time.Second}
	for number := 1; ; number++ {
		if _, err := os.Stat(filepath.Join(directory, "enough")); err == nil {
			return
		}
		response, err := client.Get(target.String())
		check(err)
		body, err := io.ReadAll(response.Body)
		check(err)
		check(response.Body.Close())
		if response.StatusCode != http.StatusOK || !bytes.Equal(body, content) {
			check(fmt.Errorf("answer %d: status %d, %d of %d bytes", number, response.StatusCode, len(body), len(content)))
		}
		check(os.WriteFile(noted+".new", []byte(strconv.Itoa(number)), 0o644))
		check(os.Rename(noted+".new", noted))
		time.Sleep(10 * time.Millisecond) // It leaves other tests some of the machine.
	}
}

func main() {
	if os.Args[1] == "ask" {
		ask(os.Args[2:])
	} else {
		move(os.Args[2:])
	}
}
