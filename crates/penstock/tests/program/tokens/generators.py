"""Tokens by the generators of others: generators.py FORMAT KEY_FILE ARGUMENT..."""
import datetime
import sys

form, key, *rest = sys.argv[1:]
if form == "akamai":
    from akamai.edgeauth import EdgeAuth

    end, kind, value, *more = rest
    options = dict(option.split("=", 1) for option in more)
    if "escape_early" in options:
        options["escape_early"] = True
    auth = EdgeAuth(key=open(key).read().strip(), end_time=int(end), **options)
    print(auth.generate_acl_token(value.split("!")) if kind == "acl" else auth.generate_url_token(value))
elif form == "cloudfront":
    from botocore.signers import CloudFrontSigner
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding

    end, url, *more = rest
    private = serialization.load_pem_private_key(open(key, "rb").read(), None)
    signer = CloudFrontSigner("K2JCJMDEHXQW5F", lambda text: private.sign(text, padding.PKCS1v15(), hashes.SHA1()))
    end = datetime.datetime.fromtimestamp(int(end), datetime.timezone.utc)
    if more:
        resource, address = more
        policy = signer.build_policy(resource, end, ip_address=address)
        print(signer.generate_presigned_url(url, policy=policy))
    else:
        print(signer.generate_presigned_url(url, date_less_than=end))
